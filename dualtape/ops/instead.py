"""What to write instead: of functions that have no row, and of keywords that other libraries give their operations.

The core's message for a function without a row ends with what is said here; a name that is only spelt alike is no help
(``cov`` is no ``cos``). What stands for a function of SciPy is a formula in its arguments.
"""

from __future__ import annotations

from typing import Any

from dualtape.core.lookup import INSTEAD

WRITE = "x[index] = value"
# By the functions' names. NumPy's:
INSTEAD.update(
    apply_along_axis="dualtape.vmap of the function, or operations with axis=",
    apply_over_axes="a reduction with axis=(i, j, ...)",
    argpartition="numpy.argsort",
    bincount="numpy.add.at(dualtape.zeros(n), index, weights)",
    block="numpy.concatenate of rows that are numpy.concatenate of blocks",
    choose="numpy.select or numpy.where",
    compress="x[condition]",
    convolve="a sum of products with slices of x",
    copyto="x[...] = value",
    corrcoef="products of what numpy.mean leaves, divided by its numpy.std",
    correlate="a sum of products with slices of x",
    cov="products of what numpy.mean leaves: d = x - mean(x, axis=1, keepdims=True), d @ d.T / (n - 1)",
    delete="numpy.concatenate of the slices that stay",
    diff="x[1:] - x[:-1]",
    ediff1d="x[1:] - x[:-1]",
    extract="x[condition]",
    float_power="numpy.power",
    geomspace="numpy.exp(numpy.linspace(numpy.log(start), numpy.log(stop), n))",
    gradient="differences of slices, (x[2:] - x[:-2]) / (2 * h) inside",
    heaviside="numpy.where(x < 0, 0.0, 1.0)",
    i0="dualtape.special.i0",
    insert="numpy.concatenate of slices and what goes between them",
    interp="i = numpy.searchsorted(xp, x) - 1 and the line through the points i and i + 1",
    isneginf="x == -numpy.inf",
    isposinf="x == numpy.inf",
    ldexp="x * 2.0**n",
    logspace="base ** numpy.linspace(start, stop, n)",
    median="the middle of numpy.sort(x), of an even number the mean of two",
    modf="x - numpy.trunc(x) and numpy.trunc(x)",
    nan_to_num="numpy.where(numpy.isnan(x), 0.0, x)",
    nancumprod="numpy.cumprod(numpy.where(numpy.isnan(x), 1.0, x))",
    nancumsum="numpy.cumsum(numpy.where(numpy.isnan(x), 0.0, x))",
    nanmax="numpy.max(x, where=~numpy.isnan(x), initial=-numpy.inf)",
    nanmean="numpy.mean(x, where=~numpy.isnan(x))",
    nanmin="numpy.min(x, where=~numpy.isnan(x), initial=numpy.inf)",
    nanprod="numpy.prod(x, where=~numpy.isnan(x))",
    nanstd="numpy.std(x[~numpy.isnan(x)])",
    nansum="numpy.sum(x, where=~numpy.isnan(x))",
    nanvar="numpy.var(x[~numpy.isnan(x)])",
    partition="numpy.sort",
    percentile="numpy.sort and the line between two of its elements",
    piecewise="numpy.select or numpy.where",
    place=WRITE,
    polyval="y = y * x + c in a loop over the coefficients, the highest first",
    put=WRITE,
    put_along_axis=WRITE,
    putmask=WRITE,
    quantile="numpy.sort and the line between two of its elements",
    resize="numpy.tile and numpy.reshape",
    rollaxis="numpy.moveaxis",
    trapezoid="numpy.sum((y[1:] + y[:-1]) * (x[1:] - x[:-1])) / 2",
    unwrap="x + 2 * numpy.pi * n with whole numbers n that numpy.unwrap(x.numpy()) tells",
    vander="x[:, None] ** numpy.arange(n)[::-1]",
)
# SciPy's:
SPECIAL = {
    "bdtr": "betaincc(floor(x) + 1, y - floor(x), z)",
    "bdtrc": "betainc(floor(x) + 1, y - floor(x), z)",
    "betainccinv": "betaincinv(x, y, 1 - z)",
    "chdtri": "2 * gammainccinv(x / 2, y)",
    "cotdg": "1 / tandg(x)",
    "ellipkm1": "ellipk(1 - x)",
    "fdtr": "betainc(x / 2, y / 2, x * z / (x * z + y))",
    "fdtrc": "betaincc(x / 2, y / 2, x * z / (x * z + y))",
    "gdtr": "gammainc(y, x * z)",
    "gdtrc": "gammaincc(y, x * z)",
    "inv_boxcox1p": "inv_boxcox(x, y) - 1",
    "kn": "kv(x, y)",
    "nbdtr": "betainc(y, x + 1, z)",
    "nbdtrc": "betaincc(y, x + 1, z)",
    "pdtr": "gammaincc(floor(x) + 1, y)",
    "pdtrc": "gammainc(floor(x) + 1, y)",
    "powm1": "expm1(y * log(x))",
    "yn": "yv(x, y)",
}
INSTEAD.update(SPECIAL)
# Functions that are Python's inside SciPy, so that nobody is asked when they are called: they convert their arguments.
for _module, _names in (
    ("special", "log_softmax logsumexp multigammaln polygamma softmax"),
    ("linalg", "cholesky det eig eigh eigvals eigvalsh inv lstsq norm pinv qr solve svd"),
):
    INSTEAD.update((f"scipy.{_module}.{_name}", f"dualtape.{_module}.{_name}") for _name in _names.split())
INSTEAD.update(
    {
        "scipy.special.comb": "dualtape.special.binom",
        "scipy.special.factorial": "dualtape.special.gamma(n + 1)",
        "scipy.special.perm": "dualtape.special.poch(n - k + 1, k)",
        "scipy.linalg.svdvals": "dualtape.linalg.svdvals",
        "scipy.linalg.solve_triangular": "dualtape.linalg.solve",
    }
)

# By the keywords' names: what the libraries mean that have them, in ours.
KEYWORDS = {
    "adjoint": "give conj(a).mT in the place of a",
    "adjoint_a": "give conj(x).mT in the place of x",
    "adjoint_b": "give conj(y).mT in the place of y",
    "conjugate": "take conj of the result",
    "exclusive": "shift the result by one place: cumulative_sum(x, include_initial=True)[:-1]",
    "reverse": "flip before and after",
    "perm": "it is axes= here",
    "name": "operations have no names here, leave it out",
    "transpose_a": "give x.mT in the place of x",
    "transpose_b": "give y.mT in the place of y",
    "dim": "it is axis= here",
}


def ensure_known(operation: str, given: dict[str, Any]) -> None:
    """Refuse keywords that an operation does not have, and say what they are called here.

    Raises:
        TypeError: for any keyword.
    """
    for keyword in given:
        known = f"; {KEYWORDS[keyword]}" if keyword in KEYWORDS else ""
        raise TypeError(f"{operation}() got an unexpected keyword argument {keyword!r}{known}")
