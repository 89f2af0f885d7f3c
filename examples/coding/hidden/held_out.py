"""The tests that decide, which no agent gets to see. `check` runs those of one task in a workspace."""

import sys
import unittest

from kit import leap, median, roman, seconds, slug


class HeldOut(unittest.TestCase):
    def test_median(self) -> None:
        for values, middle in [([3, 1, 2], 2), ([4, 1, 3, 2], 2.5), ([7], 7), ([5, 5, 1, 1], 3)]:
            with self.subTest(values=values):
                self.assertEqual(median(values), middle)

    def test_slug(self) -> None:
        for title, expected in [
            ("Hello, World!", "hello-world"),
            ("  What's new?  ", "what-s-new"),
            ("a -- b", "a-b"),
            ("100 % sure", "100-sure"),
        ]:
            with self.subTest(title=title):
                self.assertEqual(slug(title), expected)

    def test_roman(self) -> None:
        for number, numerals in [(4, "IV"), (9, "IX"), (40, "XL"), (1994, "MCMXCIV"), (3888, "MMMDCCCLXXXVIII")]:
            with self.subTest(number=number):
                self.assertEqual(roman(number), numerals)

    def test_leap(self) -> None:
        for year, is_leap in [(2023, False), (2024, True), (1900, False), (2000, True)]:
            with self.subTest(year=year):
                self.assertEqual(leap(year), is_leap)

    def test_seconds(self) -> None:
        for duration, expected in [("1h30m", 5400), ("1m30s", 90), ("45s", 45), ("1h1m1s", 3661)]:
            with self.subTest(duration=duration):
                self.assertEqual(seconds(duration), expected)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    sys.exit(not (result.testsRun and result.wasSuccessful()))  # a task without a test has not passed
