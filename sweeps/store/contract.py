"""What a store of sweeps owes, whoever writes one.

Who may write. The holder of a sweep's lease, and nobody else: every write but `create_sweep`, and `delivered` without a
lease, checks it first, inside its own transaction, and raises LeaseLost where another has taken over. A holder that was
stopped past its expiry therefore writes nothing, whatever its clock says.

What is durable when. A method that returns has survived a power loss; one that raises has kept nothing. Two
transactions make a trial: `launch` (or `relaunch`) makes the proposal, the attempt and its reservation durable before
anything is launched; `settle` the result, the settlement, the state and the outbox row, together. A kill between any
two statements leaves a whole state: a trial that is RUNNING has one open attempt with its reservation.

What never changes. A closed attempt stays as it was closed: the same content again is no change, other content is a
Conflict. What was charged never falls; a reservation that is not settled counts whole; no attempt begins beyond the
furthest executed step. Plans, configurations, seeds and claims stay the values that were written.

What a reader may see. One state between two transactions, without waiting for the writer. A sweep of an earlier release
is read by today's rules of what may leave it (`sweeps.release.policy`), and is refused where it cannot be. Views read
through the publisher (`sweeps.release.publisher`) alone.
"""
