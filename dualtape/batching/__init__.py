"""Many examples in the place of one: the stand-in for them, NumPy's functions on it, sweeps with a batch of seeds.

The words: ``physical`` is the array of all examples, which lie along its first axis; ``repeated`` is that, also of what
all examples share; ``raw`` is the value behind a Tensor, ``detached`` what is followed by nobody, as in the core.

Imports go one way: operators, batch, physical, examples, then calls, steps, outside, then level. On these stand the
rules of NumPy's functions (elementwise, functions, indices, products, which are loaded here) and the sweeps.
"""

from dualtape.batching import functions as functions
from dualtape.batching import indices as indices
from dualtape.batching import products as products
