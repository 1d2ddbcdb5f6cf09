from till.basket import Basket
from till.receipt import receipt


def test_a_slip_has_a_line_for_each_thing_and_the_total():
    basket = Basket()
    basket.add("apple", "0.10", 3)
    basket.add("nail", "0.05", 11)
    assert receipt(basket).splitlines() == [
        "3 x apple                 0.30",
        "11 x nail                 0.50",
        "total                     0.80",
    ]
