import pytest

from till.basket import Basket


def test_things_are_kept_in_order():
    basket = Basket()
    basket.add("apple", "0.10", 3)
    basket.add("bread", "2.49")
    assert [(line.name, line.count) for line in basket.lines] == [("apple", 3), ("bread", 1)]


def test_less_than_one_piece_is_refused():
    with pytest.raises(ValueError, match="0 of apple"):
        Basket().add("apple", "0.10", 0)
