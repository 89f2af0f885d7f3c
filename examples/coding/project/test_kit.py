"""python3 -m unittest: one test for each function fails."""

import unittest

from kit import leap, median, roman, seconds, slug


class KitTest(unittest.TestCase):
    def test_median_of_three(self) -> None:
        self.assertEqual(median([3, 1, 2]), 2)

    def test_median_of_four(self) -> None:
        self.assertEqual(median([4, 1, 3, 2]), 2.5)

    def test_slug_of_two_words(self) -> None:
        self.assertEqual(slug("Hello World"), "hello-world")

    def test_slug_without_punctuation(self) -> None:
        self.assertEqual(slug("Hello, World!"), "hello-world")

    def test_roman_six(self) -> None:
        self.assertEqual(roman(6), "VI")

    def test_roman_four(self) -> None:
        self.assertEqual(roman(4), "IV")

    def test_leap_year(self) -> None:
        self.assertTrue(leap(2024))

    def test_leap_year_at_a_century(self) -> None:
        self.assertFalse(leap(1900))

    def test_seconds_of_hours_and_minutes(self) -> None:
        self.assertEqual(seconds("1h30m"), 5400)

    def test_seconds_of_minutes_and_seconds(self) -> None:
        self.assertEqual(seconds("1m30s"), 90)


if __name__ == "__main__":
    unittest.main()
