from __future__ import annotations

import math
from random import Random

import pytest

from joey.content.code_index_store import (
    MAX_COMPARED_VECTORS,
    compute_cosines,
    find_most_similar,
    pack_vector,
)


def cosine(left: list[float], right: list[float]) -> float:
    product = sum(a * b for a, b in zip(left, right, strict=True))
    return product / math.hypot(*left) / math.hypot(*right)


@pytest.mark.contract("index:search")
def test_those_most_alike_are_among_the_chosen_and_rightly_measured() -> None:
    chance = Random(3)
    wanted = [chance.gauss(0, 1) for _ in range(256)]
    far = [[chance.gauss(0, 1) for _ in range(256)] for _ in range(3 * MAX_COMPARED_VECTORS)]
    near = [[a + chance.gauss(0, 1) for a in wanted] for _ in range(20)]
    vectors = dict(enumerate(far + near))
    packed = {key: pack_vector(values) for key, values in vectors.items()}
    signs, numbers = pack_vector(wanted)
    chosen = find_most_similar(signs, ((key, bits) for key, (bits, _) in packed.items()))
    assert len(chosen) == MAX_COMPARED_VECTORS
    assert {*chosen} >= {*range(len(far), len(far) + 20)}
    measured = compute_cosines(numbers, ((key, packed[key][1]) for key in chosen))
    for key, value in measured.items():
        assert value == pytest.approx(max(0.0, cosine(wanted, vectors[key])), abs=1e-5)


@pytest.mark.parametrize("values", [[0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_a_vector_without_direction_is_like_nothing(values: list[float]) -> None:
    _, numbers = pack_vector(values)
    _, one = pack_vector([1.0, 0.0])
    assert compute_cosines(one, [(1, numbers), (2, one)]) == {1: 0.0, 2: 1.0}


def test_vectors_of_another_length_are_left_out() -> None:
    assert compute_cosines(pack_vector([1.0, 0.0])[1], [(1, pack_vector([1.0, 0.0, 0.0])[1])]) == {}
