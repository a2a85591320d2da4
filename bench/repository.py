"""A made-up repository, the same every time: names of a trade, put together as programs do."""

from __future__ import annotations

from pathlib import Path
from random import Random

NOUNS = """
    account alarm archive asset audit balance batch billing bucket cache calendar cart catalog
    channel client cluster comment contact contract coupon courier currency customer dashboard
    device discount document domain driver employee event export feed forecast gateway group
    history image inventory invoice job label ledger license location mail market member message
    metric migration monitor notice offer order owner package parcel partner password payment
    permission photo pipeline policy portal price printer product profile promotion queue quota
    rating receipt record refund region registry relay report reservation resource review role
    route sale schedule schema secret segment sensor session shard shipment signal site socket
    stock storage stream subscription supplier survey tax team template tenant ticket timer token
    topic transfer trigger upload user vault video voucher warehouse webhook widget worker
""".split()  # noqa: SIM905
VERBS = """
    accept add apply approve assign attach build cancel check clear close collect compute copy
    create deliver detach disable drop enable encode evict expand expire fetch flush format freeze
    handle inspect join load lock mark match merge move normalize notify open parse patch pause
    poll prepare prune publish pull push read rebuild reject release remove rename render repair
    replace reset resolve restore resume revoke rotate save scan select send serialize skip sort
    split start stop submit swap tokenize track trim unlock update validate verify warm watch wrap
""".split()  # noqa: SIM905
QUERIES = (
    "where is an expired coupon removed from the cart",
    "normalizeInvoiceCurrency",
    "retry webhook delivery",
    "class that keeps sessions of a tenant",
    "validate_payment_receipt",
    "how are permissions of a role checked before upload",
    "rotate secrets in the vault",
    "cache",
    "error when there is no shipment for a parcel",
    "publish event to topic and notify subscribers of the channel",
)


def make_repository(root: Path, files: int) -> int:
    """Write it, and return how many bytes it has."""
    chance = Random(7)
    areas = [(chance.choice(NOUNS), chance.choice(NOUNS)) for _ in range(files // 10)]
    size = 0
    for number in range(files):
        area, part = chance.choice(areas)
        is_script = number % 2 == 1
        directory = root / ("web" if is_script else "src") / area / part
        directory.mkdir(parents=True, exist_ok=True)
        name = f"{chance.choice(NOUNS)}_{number}.{'ts' if is_script else 'py'}"
        text = _build_script(chance, area) if is_script else _build_module(chance, area, part)
        size += (directory / name).write_text(text, encoding="utf-8")
    return size


def _build_module(chance: Random, area: str, part: str) -> str:
    head = f"from {area} import {part}\n\n\nclass {area.title()}{part.title()}:\n"
    return head + "\n".join(_build_method(chance) for _ in range(chance.randint(2, 20)))


def _build_method(chance: Random) -> str:
    action, other = chance.choice(VERBS), chance.choice(VERBS)
    of, about, given, seen, made = (chance.choice(NOUNS) for _ in range(5))
    return f'''\
    def {action}_{of}_{about}(self, {given}: {given.title()}, limit: int = {chance.randint(1, 99)}):
        """{action.title()} the {of} of a {about}, unless its {seen} says otherwise."""
        found = self._{given}_store.{other}_{seen}({given}.id)
        if not found or len(found) > limit:
            raise {seen.title()}Error(f"no {seen} for {{{given}.id}}")
        for item in found:
            self._{made}_cache[item.{seen}_id] = item.{made}
        return {other}_{made}(found, key={action!r})
'''


def _build_script(chance: Random, area: str) -> str:
    head = f"import {{ {area.title()}Store }} from '../{area}';\n\n"
    return head + "\n".join(_build_function(chance) for _ in range(chance.randint(2, 20)))


def _build_function(chance: Random) -> str:
    action, other = chance.choice(VERBS), chance.choice(VERBS)
    of, about, given, seen, made = (chance.choice(NOUNS) for _ in range(5))
    name = f"{action}{of.title()}{about.title()}"
    return f"""\
/** {action.title()}s the {of} of a {about} before the {seen} is known. */
export async function {name}({given}: {given.title()}{seen.title()}): Promise<{made.title()}> {{
  const found = await this.{given}Store.{other}{seen.title()}({given}.id);
  if (!found || found.length > {chance.randint(1, 99)}) {{
    throw new Error(`{of} {about}: no {seen} for ${{{given}.id}}`);
  }}
  const all{made.title()} = found.map((item) => item.{seen}{made.title()});
  return {other}{made.title()}(all{made.title()});
}}
"""
