"""A bolt that counts a payment twice when it is replayed, found by simulated faults; and its mended form.

    python -m examples.simulated_faults

A tuple whose ack is lost with a worker or a connection is emitted again: at least once. So the effect of a bolt outside
of the topology must be idempotent. ``simulate`` finds a bolt whose effect is not, names the seed of the run, and tells
the story of a payment that went wrong.
"""

from collections.abc import Iterator

from tupletree import BasicBolt, ReliableSpout, Topology, TopologyBuilder, Tuple
from tupletree.collector import BasicCollector
from tupletree.testing import CounterexampleError, Outcome, external, simulate

PAYMENTS = [(number, f"account-{number % 5}", 100 + number) for number in range(30)]
TRUTH = {account: sum(amount for _, owner, amount in PAYMENTS if owner == account) for _, account, _ in PAYMENTS}


class Accounts:
    """A database: the balance of each account, and the payments that were booked."""

    def __init__(self) -> None:
        self.balances: dict[str, int] = {}
        self.booked: set[int] = set()

    def add(self, account: str, amount: int) -> None:
        self.balances[account] = self.balances.get(account, 0) + amount

    def add_once(self, payment: int, account: str, amount: int) -> None:
        """Add a payment unless it is booked: in a real database, in one transaction with the key of the payment."""
        if payment not in self.booked:
            self.booked.add(payment)
            self.add(account, amount)


class Payments(ReliableSpout):
    outputs = ["payment", "account", "amount"]

    def read(self) -> Iterator[list[object]]:
        for payment in PAYMENTS:
            yield list(payment)


class Book(BasicBolt):
    """Adds each payment that it executes: once more for each replay."""

    def __init__(self, accounts: Accounts) -> None:
        self.accounts = accounts

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.accounts.add(tup["account"], tup["amount"])


class BookOnce(Book):
    """Adds each payment once, however often it is executed."""

    def execute(self, tup: Tuple, collector: BasicCollector) -> None:
        self.accounts.add_once(tup["payment"], tup["account"], tup["amount"])


ACCOUNTS = external(Accounts)


def topology(bolt: Book) -> Topology:
    builder = TopologyBuilder()
    payments = builder.set_spout("payments", Payments())
    builder.set_bolt("book", bolt, parallelism=2).fields_grouping(payments, "account")
    return builder.create_topology()


def check(outcome: Outcome) -> None:
    outcome.compare(outcome.external(ACCOUNTS).balances, TRUTH)


def main() -> None:
    try:
        simulate(topology(Book(ACCOUNTS)), seeds=range(200), check=check)
    except CounterexampleError as error:
        print(f"Book: {error}\n")
    print("BookOnce:", simulate(topology(BookOnce(ACCOUNTS)), seeds=range(200), check=check))


if __name__ == "__main__":
    main()
