"""In which order the nodes of a cluster are asked."""

from hypothesis import given
from hypothesis import strategies as st

from sweeps.ray.cluster import one_of_each_machine


@given(st.lists(st.sampled_from("abcd")))
def test_each_node_once_and_no_machine_twice_at_a_time(machines):
    nodes = [{"NodeID": str(number), "NodeManagerHostname": name} for number, name in enumerate(machines)]
    parts = list(one_of_each_machine(nodes))
    asked = [node["NodeID"] for part in parts for node in part]
    assert sorted(asked) == sorted(node["NodeID"] for node in nodes)
    for part in parts:
        names = [node["NodeManagerHostname"] for node in part]
        assert len(set(names)) == len(names)
    assert len(parts) == max((machines.count(name) for name in machines), default=0)


def test_nodes_of_different_machines_are_asked_at_once():
    nodes = [{"NodeID": name, "NodeManagerHostname": name} for name in "abc"]
    assert list(one_of_each_machine(nodes)) == [nodes]
