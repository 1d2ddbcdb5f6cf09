"""The slip of paper a customer gets."""

from till.basket import Basket

WIDTH = 30


def receipt(basket: Basket) -> str:
    """A line for each thing, and what it comes to."""
    rows = [(f"{line.count} x {line.name}", line.cost()) for line in basket.lines]
    rows.append(("total", basket.total()))
    return "\n".join(f"{what:<{WIDTH - 8}}{cost:>8.2f}" for what, cost in rows)
