"""What a customer is about to buy."""

from dataclasses import dataclass, field
from decimal import Decimal


@dataclass(frozen=True)
class Line:
    """Some pieces of one thing, at a price for each."""

    name: str
    price: Decimal
    count: int


@dataclass
class Basket:
    """Lines, in the order in which they were added."""

    lines: list[Line] = field(default_factory=list)

    def add(self, name: str, price: str, count: int = 1) -> None:
        """Put in `count` pieces at `price` each, such as "0.10"."""
        if count < 1:
            raise ValueError(f"{count} of {name}: at least one is needed")
        self.lines.append(Line(name, Decimal(price), count))
