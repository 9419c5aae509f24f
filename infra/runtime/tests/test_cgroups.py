"""Which control group may be divided. The folders of one are made by hand here: what a kernel offers differs
from machine to machine, and is never the same twice."""

import os
from pathlib import Path

import pytest

from warrener_runtime.cgroups import NoControlGroup, divide, divisible, own_group


def group_of(
    folder: Path, *, controllers: str = "cpu memory pids", below: str = "", processes: str = ""
) -> Path:
    folder.mkdir(parents=True)
    (folder / "cgroup.controllers").write_text(controllers)
    (folder / "cgroup.subtree_control").write_text(below)
    (folder / "cgroup.procs").write_text(processes)
    return folder


def proc_of(tmp_path: Path, mounts: str, groups: str) -> Path:
    folder = tmp_path / "proc" / "self"
    folder.mkdir(parents=True)
    (folder / "mountinfo").write_text(mounts)
    (folder / "cgroup").write_text(groups)
    return folder.parent


def test_the_group_of_this_process_is_where_the_hierarchy_is_mounted(tmp_path: Path) -> None:
    mounts = (
        "21 1 0:19 / /sys rw - sysfs sysfs rw\n"
        "30 21 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
    )
    proc = proc_of(tmp_path, mounts, "0::/system.slice/shop.service\n")
    assert own_group(proc) == Path("/sys/fs/cgroup/system.slice/shop.service")
    mounts = "30 21 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    proc = proc_of(tmp_path / "container", mounts, "4:memory:/old\n0::/docker/abc/agent\n")
    assert own_group(proc) == Path("/sys/fs/cgroup/agent"), "the part that is mounted is not named twice"


def test_elsewhere_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(NoControlGroup, match="no Linux"):
        own_group(tmp_path)
    with pytest.raises(NoControlGroup, match="version 2"):
        own_group(proc_of(tmp_path, "21 1 0:19 / /sys rw - sysfs sysfs rw\n", "0::/\n"))


def test_a_group_of_ours_is_divided_and_we_move_into_a_leaf(tmp_path: Path) -> None:
    group = group_of(tmp_path / "ours", processes=str(os.getpid()))
    assert not divisible(group)
    assert divide(group) == group
    assert (group / "itself" / "cgroup.procs").read_text() == str(os.getpid())
    assert (group / "cgroup.subtree_control").read_text() == "+memory +pids"


def test_one_that_is_divided_already_is_left_as_it_is(tmp_path: Path) -> None:
    group = group_of(tmp_path / "ours", below="memory pids")
    assert divisible(group)
    assert divide(group) == group
    assert not (group / "itself").exists()


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ({"controllers": "cpu hugetlb"}, "no controller for memory and pids"),
        ({"processes": "1\n2\n3"}, "3 processes of others"),
    ],
)
def test_what_is_not_ours_to_divide_is_left_alone_with_the_reason(
    tmp_path: Path, made: dict[str, str], why: str
) -> None:
    group = group_of(tmp_path / "theirs", **made)
    with pytest.raises(NoControlGroup, match=why):
        divide(group)
    assert not (group / "itself").exists()


def test_what_was_begun_is_undone_where_the_kernel_refuses(tmp_path: Path) -> None:
    group = group_of(tmp_path / "ours")
    (group / "itself").touch()
    with pytest.raises(NoControlGroup, match="cannot be divided"):
        divide(group)
    assert (group / "cgroup.procs").read_text() == str(os.getpid())
