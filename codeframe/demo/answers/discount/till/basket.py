"""What a customer is about to buy."""

from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")
MANY = 10
FOR_MANY = Decimal("0.9")


@dataclass(frozen=True)
class Line:
    """Some pieces of one thing, at a price for each."""

    name: str
    price: Decimal
    count: int

    def cost(self) -> Decimal:
        """What these pieces cost: a tenth less from ten on, half a cent rounded up."""
        full = self.price * self.count
        return (full * FOR_MANY if self.count >= MANY else full).quantize(CENT, ROUND_HALF_UP)


@dataclass
class Basket:
    """Lines, in the order in which they were added."""

    lines: list[Line] = field(default_factory=list)

    def add(self, name: str, price: str, count: int = 1) -> None:
        """Put in `count` pieces at `price` each, such as "0.10"."""
        if count < 1:
            raise ValueError(f"{count} of {name}: at least one is needed")
        self.lines.append(Line(name, Decimal(price), count))

    def total(self) -> Decimal:
        """What all of it costs."""
        return sum((line.cost() for line in self.lines), Decimal("0.00"))
