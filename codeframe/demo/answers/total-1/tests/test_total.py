from decimal import Decimal

from till.basket import Basket


def test_each_piece_counts():
    basket = Basket()
    basket.add("apple", "0.10", 3)
    assert basket.total() == Decimal("0.30")


def test_a_sum_is_exact_to_the_cent():
    basket = Basket()
    basket.add("apple", "0.10")
    basket.add("pear", "0.20")
    assert basket.total() == Decimal("0.30")


def test_nothing_costs_nothing():
    assert Basket().total() == Decimal("0.00")
