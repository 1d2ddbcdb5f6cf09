from decimal import Decimal

import pytest

from till.basket import Basket


@pytest.mark.parametrize(
    ("count", "cost"),
    [
        (9, "0.45"),
        (10, "0.45"),
        (13, "0.59"),  # 0.585: half to even would give 0.58
    ],
)
def test_ten_or_more_of_one_thing_cost_a_tenth_less(count, cost):
    basket = Basket()
    basket.add("nail", "0.05", count)
    assert basket.total() == Decimal(cost)
