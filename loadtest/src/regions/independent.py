"""Figures of hot spots from their description alone, without the program.

So many files of one directory are imported in 50 seconds, and the directory along with the first. They are counted up
from 1, the directory first. A key is the number as 8 bytes, big-endian, or the SHA-256 of that; 16 regions are split at
the quantiles of the keys, or evenly. Printed: the hottest region divided by the mean of all, median and maximum over
seconds, of both; and the median if chance deals the requests.
"""

import bisect
import hashlib
import random
import statistics
import sys

files, regions = int(sys.argv[1]), 16
rate = files // 50
keys = [(max(number - 2, 0) // rate, number.to_bytes(8, "big")) for number in range(1, files + 2)]
hashed = [(second, hashlib.sha256(key).digest()) for second, key in keys]
splits = [keys[n * len(keys) // regions][1] for n in range(1, regions)]


def ratios(regions_by_second):
    windows = {}
    for second, region in regions_by_second:
        windows.setdefault(second, [0] * regions)[region] += 1
    return [max(window) * regions / sum(window) for window in windows.values()]


ordered = ratios((second, bisect.bisect_right(splits, key)) for second, key in keys)
even = ratios((second, key[0] * regions // 256) for second, key in hashed)
dealer = random.Random(1)
chance = ratios((n // rate, dealer.randrange(regions)) for n in range(1000 * rate))
print(statistics.median(ordered), max(ordered), statistics.median(even), max(even), statistics.median(chance))
