"""Calls as models write them in XML, read by the parser and then by the tool: nothing is lost."""

from __future__ import annotations

from joey.tools.apply_diff import FileDiffRequest
from joey.tools.file_view import FileReadRequest
from tests.harness.tools.xml_calls import only_call, parsed, registry


def test_files_without_args_around_them_are_all_read() -> None:
    request = parsed(
        "<read_file>\n<file><path>a</path></file>\n<file><path>b</path></file>\n</read_file>"
    )
    assert request.files == (FileReadRequest("a"), FileReadRequest("b"))


def test_paths_that_stand_side_by_side_in_args_are_all_read() -> None:
    request = parsed("<read_file><args><path>a</path><path>b</path></args></read_file>")
    assert request.files == (FileReadRequest("a"), FileReadRequest("b"))


def test_ranges_beside_a_path_are_all_read() -> None:
    request = parsed(
        "<read_file><path>a</path><line_range>1-5</line_range>"
        "<line_range>9-10</line_range></read_file>"
    )
    assert request.files == (FileReadRequest("a", ((1, 5), (9, 10))),)


def test_files_beside_a_path_are_all_read() -> None:
    request = parsed("<read_file><path>a</path><file><path>b</path></file></read_file>")
    assert request.files == (FileReadRequest("b"), FileReadRequest("a"))


def test_args_that_are_written_twice_are_all_read() -> None:
    request = parsed(
        "<read_file><args><file><path>a</path></file></args>\n"
        "<args><file><path>b</path></file></args></read_file>"
    )
    assert request.files == (FileReadRequest("a"), FileReadRequest("b"))


def test_files_of_a_diff_without_args_around_them_are_all_changed() -> None:
    request = parsed(
        "<apply_diff><file><path>a</path><diff><content>1</content></diff></file>\n"
        "<file><path>b</path><diff>2</diff></file></apply_diff>"
    )
    assert request.files == (FileDiffRequest("a", "1"), FileDiffRequest("b", "2"))


def test_what_is_searched_in_an_output_has_no_white_space_around_it() -> None:
    params = parsed(
        "<read_command_output><artifact_id>cmd-1.txt</artifact_id>\n"
        "<search>\n  error \n</search></read_command_output>"
    )
    assert params.search == "error"


def test_a_value_in_cdata_is_what_the_cdata_holds() -> None:
    call = only_call(
        "<write_to_file><path>a.html</path><content><![CDATA[<b>x</b>]]></content></write_to_file>"
    )
    params = registry.find(call.name).parse(call.input)
    assert params.content == "<b>x</b>"


def test_a_parameter_may_have_the_name_of_its_tool() -> None:
    call = only_call("<skill>\n<skill>brew-tea</skill>\n<args>for two</args>\n</skill>")
    assert (call.name, call.input) == ("skill", {"skill": "brew-tea", "args": "for two"})
