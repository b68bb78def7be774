"""Lesson 01: answers as students write them."""

import functools
import math
import operator
import sys

import numpy as np
import torch

from tests.answers import right, wrong

# --- 1.1 payload of any shape and dtype ---------------------------------------------------------


@right("1.1")
def product_of_python_integers(shape, dtype):
    return math.prod(shape) * np.dtype(dtype).itemsize


@right("1.1")
def by_a_loop(shape, dtype):
    size = np.dtype(dtype).itemsize
    for length in shape:
        size = size * length
    return size


@right("1.1")
def by_reduce(shape, dtype):
    return functools.reduce(operator.mul, shape, 1) * np.empty(0, dtype).itemsize


@right("1.1")
def by_an_empty_array_of_one(shape, dtype):
    return math.prod(shape) * np.empty((), dtype).nbytes


@right("1.1")
def product_of_objects(shape, dtype):
    return np.prod(shape, dtype=object) * np.zeros(1, dtype=dtype).itemsize


@right("1.1")
def as_a_numpy_integer_where_it_fits(shape, dtype):
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return np.int64(size) if size < 2**62 else size


@right("1.1")
def recursive(shape, dtype):
    return shape[0] * recursive(shape[1:], dtype) if len(shape) else np.dtype(dtype).itemsize


@wrong("1.1", cause="bits for bytes")
def bits(shape, dtype):
    return math.prod(shape) * np.dtype(dtype).itemsize * 8


@wrong("1.1", cause="header counted")
def object_size(shape, dtype):
    return sys.getsizeof(np.empty(shape, dtype))


@wrong("1.1", cause="one size for every dtype")
def eight_bytes_always(shape, dtype):
    return math.prod(shape) * 8


@wrong("1.1", cause="one size for every dtype")
def four_bytes_always(shape, dtype):
    return math.prod(shape) * 4


@wrong("1.1", cause="elements for bytes")
def number_of_elements(shape, dtype):
    return math.prod(shape)


@wrong("1.1", cause="square only")
def first_axis_squared(shape, dtype):
    return shape[0] ** 2 * np.dtype(dtype).itemsize


@wrong("1.1", cause="axes added")
def sum_of_axes(shape, dtype):
    return sum(shape) * np.dtype(dtype).itemsize


@wrong("1.1", cause="some axes only")
def matrices_only(shape, dtype):
    return shape[0] * shape[1] * np.dtype(dtype).itemsize


@wrong("1.1", cause="one number for none")
def no_axes_no_numbers(shape, dtype):
    return math.prod(shape) * np.dtype(dtype).itemsize if shape else 0


@wrong("1.1", cause="integer overflow")
def product_in_64_bits(shape, dtype):
    return np.prod(shape, dtype=np.int64) * np.dtype(dtype).itemsize


@wrong("1.1", cause="integer overflow")
def product_in_64_bits_as_int(shape, dtype):
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize


@wrong("1.1", cause="a float")
def product_as_float(shape, dtype):
    return np.prod(shape) * np.dtype(dtype).itemsize


@wrong("1.1", cause="rounded")
def float_made_whole(shape, dtype):
    return int(np.prod(shape, dtype=float)) * np.dtype(dtype).itemsize


@wrong("1.1", cause="made the array")
def by_allocating(shape, dtype):
    return np.empty(shape, dtype).nbytes


@wrong("1.1", cause="raised an error")
def by_broadcasting(
    shape, dtype
):  # costs nothing, but NumPy refuses a view of more than 2**63 bytes
    return np.broadcast_to(np.empty((), dtype), shape).nbytes


@wrong("1.1", cause="memory out of sight")
def by_allocating_in_torch(shape, dtype):
    return torch.empty(shape).numel() * np.dtype(dtype).itemsize


# --- 1.2 memory that a list of arrays owns ------------------------------------------------------


@right("1.2")
def owners_by_id(arrays):
    owners = {}
    for array in arrays:
        owner = array if array.base is None else array.base
        owners[id(owner)] = owner.nbytes
    return sum(owners.values())


@right("1.2")
def following_every_base(arrays):
    seen, total = set(), 0
    for array in arrays:
        while array.base is not None:
            array = array.base
        if id(array) not in seen:
            seen.add(id(array))
            total += array.nbytes
    return total


@right("1.2")
def list_of_owners_compared_by_is(arrays):
    owners = []
    for array in arrays:
        owner = array.base if isinstance(array.base, np.ndarray) else array
        if not any(owner is other for other in owners):
            owners.append(owner)
    return np.sum([owner.nbytes for owner in owners], dtype=np.int64)


@right("1.2")
def addresses_of_owners(arrays):
    def owner(array):
        return array if array.base is None else owner(array.base)

    return sum({owner(a).ctypes.data: owner(a).nbytes for a in arrays}.values())


@right("1.2")
def size_times_itemsize_of_owners(arrays):
    owners = [a if a.flags.owndata else a.base for a in arrays]
    return sum(
        o.size * o.itemsize for i, o in enumerate(owners) if id(o) not in map(id, owners[:i])
    )


@wrong("1.2", cause="nbytes added up")
def sum_of_nbytes(arrays):
    return sum(array.nbytes for array in arrays)


@wrong("1.2", cause="objects for buffers")
def distinct_objects(arrays):
    return sum({id(array): array.nbytes for array in arrays}.values())


@wrong("1.2", cause="a buffer for each view")
def bases_added_up(arrays):
    return sum(array.nbytes if array.base is None else array.base.nbytes for array in arrays)


@wrong("1.2", cause="a view's own bytes")
def own_bytes_of_the_first_view(arrays):
    seen, total = set(), 0
    for array in arrays:
        key = id(array if array.base is None else array.base)
        if key not in seen:
            seen.add(key)
            total += array.nbytes
    return total


@wrong("1.2", cause="the last view's bytes")
def own_bytes_of_the_last_view(arrays):
    owners = {}
    for a in arrays:
        owner = a if a.base is None else a.base
        owners[id(owner)] = a.nbytes
    return sum(owners.values())


@wrong("1.2", cause="views left out")
def owners_in_the_list_only(arrays):
    return sum({id(a): a.nbytes for a in arrays if a.base is None}.values())


@wrong("1.2", cause="views left out, twice")
def without_views(arrays):
    return sum(array.nbytes for array in arrays if array.flags.owndata)


@wrong("1.2", cause="addresses for buffers")
def buffers_by_address(arrays):
    owners = {a.ctypes.data: a if a.base is None else a.base for a in arrays}
    return sum(owner.nbytes for owner in owners.values())


@wrong("1.2", cause="addresses for buffers")
def addresses_of_first_numbers(arrays):
    seen, total = set(), 0
    for array in arrays:
        start = array.__array_interface__["data"][0]
        if start not in seen:
            seen.add(start)
            total += array.nbytes
    return total


@wrong("1.2", cause="a buffer for each view")
def those_that_overlap_once(arrays):
    kept = []
    for array in arrays:
        if not any(np.shares_memory(array, other) for other in kept):
            kept.append(array)
    return sum(array.nbytes if array.base is None else array.base.nbytes for array in kept)


@wrong("1.2", cause="equal is not the same")
def equal_arrays_once(arrays):
    owners = []
    for array in arrays:
        owner = array if array.base is None else array.base
        if not any(np.array_equal(owner, other) for other in owners):
            owners.append(owner)
    return sum(owner.nbytes for owner in owners)


@wrong("1.2", cause="objects measured")
def sizes_of_objects(arrays):
    return sum(sys.getsizeof(array) for array in arrays)


@wrong("1.2", cause="changed its input")
def emptying_the_list(arrays):
    owners = {}
    while arrays:
        array = arrays.pop()
        owner = array if array.base is None else array.base
        owners[id(owner)] = owner.nbytes
    return sum(owners.values())


# --- 1.3 normalize rows in place ----------------------------------------------------------------


@right("1.3")
def divide_in_place(x):
    x /= x.sum(axis=1, keepdims=True)


@right("1.3")
def divide_with_out(x):
    np.divide(x, np.sum(x, axis=1)[:, np.newaxis], out=x)


@right("1.3")
def row_after_row(x):
    for row in x:
        row /= row.sum()


@right("1.3")
def row_after_row_by_index(x):
    for i in range(len(x)):
        x[i] = x[i] / sum(x[i])


@right("1.3")
def column_after_column(x):
    sums = x.sum(axis=1)
    for j in range(x.shape[1]):
        x[:, j] = x[:, j] / sums


@right("1.3")
def columns_of_the_transpose(x):
    x.T[...] /= np.einsum("nd->n", x)


@right("1.3")
def times_the_reciprocal(x):
    sums = x.sum(axis=1, keepdims=True)
    x *= 1 / sums


@right("1.3")
def sums_in_double_precision(x):
    x /= x.sum(axis=1, keepdims=True, dtype=np.float64)


@right("1.3")
def in_blocks_of_rows(x):
    for start in range(0, len(x), 1000):
        block = x[start : start + 1000]
        block[:] = block / block.sum(axis=1, keepdims=True)


@right("1.3")
def sums_by_a_product(x):
    x /= (x @ np.ones(x.shape[1], x.dtype))[:, None]


@right("1.3")
def and_returns_x_as_well(x):
    np.multiply(x, np.reciprocal(x.sum(axis=-1))[:, None], out=x)
    return x


@wrong("1.3", cause="returned a new array")
def returns_the_quotient(x):
    return x / x.sum(axis=1, keepdims=True)


@wrong("1.3", cause="x untouched")
def rebinds_the_name(x):
    x = x / x.sum(axis=1, keepdims=True)


@wrong("1.3", cause="x untouched")
def works_on_a_copy(x):
    x = x.copy()
    x /= x.sum(axis=1, keepdims=True)


@wrong("1.3", cause="x untouched")
def flattened_first(x):  # ravel of a view copies: right on whole arrays only
    flat = x.ravel()
    flat /= np.repeat(x.sum(axis=1), x.shape[1])


@wrong("1.3", cause="a second matrix")
def quotient_first(x):
    x[:] = x / x.sum(axis=1, keepdims=True)


@wrong("1.3", cause="a second matrix")
def by_a_double_copy(x):
    y = x.astype(np.float64)
    y /= y.sum(axis=1, keepdims=True)
    x[...] = y


@wrong("1.3", cause="a second matrix")
def sums_repeated(x):
    x /= np.repeat(x.sum(axis=1, keepdims=True), x.shape[1], axis=1)


@wrong("1.3", cause="over budget")
def in_four_large_blocks(x):
    for block in np.array_split(x, 4):
        block[:] = block / block.sum(axis=1, keepdims=True)


@wrong("1.3", cause="columns for rows")
def columns(x):
    x /= x.sum(axis=0)


@wrong("1.3", cause="sums along the wrong axis")
def without_keepdims(x):
    x /= x.sum(axis=1)


@wrong("1.3", cause="one sum for all")
def the_whole_sum(x):
    x /= x.sum()


@wrong("1.3", cause="absolute values summed")
def sum_of_absolute_values(x):
    x /= np.abs(x).sum(axis=1, keepdims=True)


@wrong("1.3", cause="divided by the norm")
def euclidean_norm(x):
    x /= np.linalg.norm(x, axis=1, keepdims=True)


@wrong("1.3", cause="divided by the largest")
def largest_number(x):
    x /= x.max(axis=1, keepdims=True)


@wrong("1.3", cause="sum of changed numbers")
def sums_taken_again(x):
    for j in range(x.shape[1]):
        x[:, j] /= x.sum(axis=1)


@wrong("1.3", cause="sum of changed numbers")
def sums_taken_again_by_number(x):
    for i in range(min(len(x), 100)):
        for j in range(x.shape[1]):
            x[i, j] /= x[i].sum()


@wrong("1.3", cause="not its own sum")
def sums_of_an_earlier_call(x, cache={}):  # noqa: B006
    if x.shape not in cache:
        cache[x.shape] = x.sum(axis=1, keepdims=True)
    x /= cache[x.shape]


@wrong("1.3", cause="kept after the return")
def sums_kept_for_later(x, kept=[]):  # noqa: B006
    kept.append(x.sum(axis=1, keepdims=True))
    x /= kept[-1]


@wrong("1.3", cause="memory out of sight")
def with_torch(x):
    t = torch.from_numpy(x)
    t /= t.sum(dim=1, keepdim=True)


# --- 1.4 row statistics of all pairwise distances -----------------------------------------------


@right("1.4")
def differences_of_a_block(points, block_rows):
    n = len(points)
    mean, largest = np.empty(n), np.empty(n)
    for start in range(0, n, block_rows):
        block = slice(start, start + block_rows)
        difference = points[block, None, :] - points[None, :, :]
        distance = np.sqrt((difference**2).sum(axis=2))
        mean[block] = distance.mean(axis=1)
        largest[block] = distance.max(axis=1)
    return mean, largest


@right("1.4")
def with_many_names(points, block_rows):
    n = points.shape[0]
    mean, largest = np.zeros(n), np.zeros(n)
    for start in range(0, n, block_rows):
        stop = min(start + block_rows, n)
        rows = points[start:stop].copy()
        difference = rows[:, None, :] - points[None, :, :]
        squares = difference * difference
        summed = np.sum(squares, axis=-1)
        distance = np.sqrt(summed)
        mean[start:stop] = np.sum(distance, axis=1) / n
        largest[start:stop] = np.max(distance, axis=1)
    return mean, largest


@right("1.4")
def row_after_row_distances(points, block_rows):
    means, maxima = [], []
    for point in points:
        distance = np.sqrt(((points - point) ** 2).sum(axis=1))
        means.append(distance.mean())
        maxima.append(distance.max())
    return np.array(means), np.array(maxima)


@right("1.4")
def by_norm_and_concatenate(points, block_rows):
    means, maxima = [], []
    for start in range(0, len(points), block_rows):
        distance = np.linalg.norm(points[start : start + block_rows, None] - points, axis=-1)
        means.append(distance.mean(axis=1))
        maxima.append(distance.max(axis=1))
    return np.concatenate(means), np.concatenate(maxima)


@right("1.4")
def by_products_clipped(points, block_rows):
    n = len(points)
    squares = (points**2).sum(axis=1)
    mean, largest = np.empty(n), np.empty(n)
    for i in range(0, n, block_rows):
        rows = points[i : i + block_rows]
        squared = squares[i : i + block_rows, None] + squares - 2 * rows @ points.T
        distance = np.sqrt(np.maximum(squared, 0))
        mean[i : i + block_rows] = distance.mean(axis=1)
        largest[i : i + block_rows] = distance.max(axis=1)
    return mean, largest


@right("1.4")
def tiles_in_both_directions(points, block_rows):
    n = len(points)
    total, largest = np.zeros(n), np.zeros(n)
    for i in range(0, n, block_rows):
        for j in range(0, n, 8 * block_rows):
            difference = points[i : i + block_rows, None] - points[None, j : j + 8 * block_rows]
            distance = np.sqrt(np.einsum("ijd,ijd->ij", difference, difference))
            total[i : i + block_rows] += distance.sum(axis=1)
            np.maximum(
                largest[i : i + block_rows], distance.max(axis=1), out=largest[i : i + block_rows]
            )
    return [total / n, largest]


@right("1.4")
def buffers_made_once(points, block_rows):
    n, d = points.shape
    statistics = np.empty((2, n))
    distance_buffer, buffer = np.empty((block_rows, n)), np.empty((block_rows, n))
    for i in range(0, n, block_rows):
        rows = min(block_rows, n - i)
        distance, scratch = distance_buffer[:rows], buffer[:rows]
        distance.fill(0)
        for k in range(d):
            np.subtract.outer(points[i : i + rows, k], points[:, k], out=scratch)
            scratch *= scratch
            distance += scratch
        np.sqrt(distance, out=distance)
        distance.mean(axis=1, out=statistics[0, i : i + rows])
        distance.max(axis=1, out=statistics[1, i : i + rows])
    return statistics


@right("1.4")
def with_a_helper_and_split(points, block_rows):
    def of_rows(rows):
        squared = sum((rows[:, k, None] - points[None, :, k]) ** 2 for k in range(points.shape[1]))
        return np.sqrt(squared)

    pairs = [
        (d.mean(1), d.max(1))
        for d in map(of_rows, np.split(points, range(block_rows, len(points), block_rows)))
    ]
    return tuple(np.hstack(part) for part in zip(*pairs))


@right("1.4")
def apply_along_axis(points, block_rows):
    both = np.apply_along_axis(_mean_and_largest, 1, points, points)
    return both[:, 0], both[:, 1]


def _mean_and_largest(point, points):
    distance = np.linalg.norm(points - point, axis=1)
    return np.array([distance.mean(), distance.max()])


@wrong("1.4", cause="grows as the square")
def all_differences(points, block_rows):
    distance = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    return distance.mean(axis=1), distance.max(axis=1)


@wrong("1.4", cause="grows as the square")
def whole_table_by_products(points, block_rows):
    squares = (points**2).sum(axis=1)
    table = points @ points.T
    table *= -2
    table += squares
    table += squares[:, None]
    np.maximum(table, 0, out=table)
    np.sqrt(table, out=table)
    return table.mean(axis=1), table.max(axis=1)


@wrong("1.4", cause="grows as the square")
def blocks_collected(points, block_rows):
    blocks = []
    for start in range(0, len(points), block_rows):
        difference = points[start : start + block_rows, None] - points
        blocks.append(np.sqrt((difference**2).sum(axis=2)))
    table = np.concatenate(blocks)
    return table.mean(axis=1), table.max(axis=1)


@wrong("1.4", cause="grows as the square")
def fixed_number_of_blocks(points, block_rows):
    block_rows = max(len(points) // 4, 1)
    return differences_of_a_block(points, block_rows)


@wrong("1.4", cause="blocks too large")
def blocks_of_its_own_size(points, block_rows):
    return differences_of_a_block(points, 256)


@wrong("1.4", cause="last rows left out")
def whole_blocks_only(points, block_rows):
    n = len(points)
    mean, largest = np.zeros(n), np.zeros(n)
    for k in range(n // block_rows):
        rows = slice(k * block_rows, (k + 1) * block_rows)
        distance = np.linalg.norm(points[rows, None] - points, axis=-1)
        mean[rows], largest[rows] = distance.mean(axis=1), distance.max(axis=1)
    return mean, largest


@wrong("1.4", cause="last rows left out")
def whole_blocks_only_concatenated(points, block_rows):
    parts = []
    for k in range(len(points) // block_rows):
        distance = np.linalg.norm(
            points[k * block_rows : (k + 1) * block_rows, None] - points, axis=-1
        )
        parts.append((distance.mean(axis=1), distance.max(axis=1)))
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


@wrong("1.4", cause="squared")
def without_the_root(points, block_rows):
    parts = []
    for i in range(0, len(points), block_rows):
        squared = ((points[i : i + block_rows, None] - points) ** 2).sum(axis=2)
        parts.append((squared.mean(axis=1), squared.max(axis=1)))
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


@wrong("1.4", cause="root too late")
def root_of_the_mean(points, block_rows):
    mean, largest = without_the_root(points, block_rows)
    return np.sqrt(mean), np.sqrt(largest)


@wrong("1.4", cause="not Euclidean")
def city_blocks(points, block_rows):
    parts = []
    for i in range(0, len(points), block_rows):
        distance = np.abs(points[i : i + block_rows, None] - points).sum(axis=2)
        parts.append((distance.mean(axis=1), distance.max(axis=1)))
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


@wrong("1.4", cause="divided by n - 1")
def without_itself(points, block_rows):
    mean, largest = differences_of_a_block(points, block_rows)
    return mean * len(points) / max(len(points) - 1, 1), largest


@wrong("1.4", cause="block against itself")
def only_within_blocks(points, block_rows):
    means, maxima = [], []
    for i in range(0, len(points), block_rows):
        rows = points[i : i + block_rows]
        distance = np.linalg.norm(rows[:, None] - rows, axis=-1)
        means.append(distance.mean(axis=1))
        maxima.append(distance.max(axis=1))
    return np.concatenate(means), np.concatenate(maxima)


@wrong("1.4", cause="mean of means")
def mean_of_tile_means(points, block_rows):
    n, columns = len(points), range(0, len(points), block_rows)
    mean, largest = np.zeros(n), np.zeros(n)
    for i in range(0, n, block_rows):
        for j in columns:
            distance = np.linalg.norm(
                points[i : i + block_rows, None] - points[None, j : j + block_rows], axis=-1
            )
            mean[i : i + block_rows] += distance.mean(axis=1) / len(columns)
            largest[i : i + block_rows] = np.maximum(
                largest[i : i + block_rows], distance.max(axis=1)
            )
    return mean, largest


@wrong("1.4", cause="last tile only")
def largest_of_the_last_tile(points, block_rows):
    n = len(points)
    total, largest = np.zeros(n), np.zeros(n)
    for i in range(0, n, block_rows):
        for j in range(0, n, block_rows):
            distance = np.linalg.norm(
                points[i : i + block_rows, None] - points[None, j : j + block_rows], axis=-1
            )
            total[i : i + block_rows] += distance.sum(axis=1)
            largest[i : i + block_rows] = distance.max(axis=1)
    return total / n, largest


@wrong("1.4", cause="swapped")
def largest_first(points, block_rows):
    mean, largest = differences_of_a_block(points, block_rows)
    return largest, mean


@wrong("1.4", cause="root of a negative")
def by_products_unclipped(points, block_rows):
    n = len(points)
    squares = (points**2).sum(axis=1)
    mean, largest = np.empty(n), np.empty(n)
    with np.errstate(invalid="ignore"):
        for i in range(0, n, block_rows):
            squared = (
                squares[i : i + block_rows, None]
                + squares
                - 2 * points[i : i + block_rows] @ points.T
            )
            distance = np.sqrt(squared)
            mean[i : i + block_rows], largest[i : i + block_rows] = (
                distance.mean(axis=1),
                distance.max(axis=1),
            )
    return mean, largest


@wrong("1.4", cause="wrong type")
def lists_of_numbers(points, block_rows):
    mean, largest = differences_of_a_block(points, block_rows)
    return mean.tolist(), largest.tolist()


@wrong("1.4", cause="wrong type")
def one_mean_one_largest(points, block_rows):
    mean, largest = differences_of_a_block(points, block_rows)
    return mean.mean(), largest.max()


@wrong("1.4", cause="memory out of sight")
def torch_cdist(points, block_rows):
    distance = torch.cdist(torch.from_numpy(points), torch.from_numpy(points))
    return distance.mean(dim=1).numpy(), distance.max(dim=1).values.numpy()


@wrong("1.4", cause="changed its input")
def centred_in_place(points, block_rows):
    points -= points.mean(axis=0)
    return differences_of_a_block(points, block_rows)


# --- found by playing ---------------------------------------------------------------------------


@right("1.3")
def an_inner_function_that_calls_itself(x):
    sums = x.sum(axis=1)

    def divide(start, stop):
        if stop - start <= 4096:
            x[start:stop] /= sums[start:stop, None]
            return
        middle = (start + stop) // 2
        divide(start, middle)
        divide(middle, stop)

    divide(0, len(x))


@right("1.4")
def blocks_in_threads(points, block_rows):
    from multiprocessing.pool import ThreadPool

    n = len(points)
    mean, largest = np.empty(n), np.empty(n)

    def one_block(start):
        rows = slice(start, start + block_rows)
        distance = np.sqrt(((points[rows, None] - points) ** 2).sum(axis=2))
        mean[rows], largest[rows] = distance.mean(axis=1), distance.max(axis=1)

    with ThreadPool(1) as pool:
        pool.map(one_block, range(0, n, block_rows))
    return mean, largest


@wrong("1.2", cause="changed its input")
def empties_the_list(arrays):
    owners = {}
    while arrays:
        array = arrays.pop()
        owner = array if array.base is None else array.base
        owners[id(owner)] = owner.nbytes
    return sum(owners.values())


@wrong("1.2", cause="changed its input")
def puts_ids_into_the_list(arrays):
    owners = {}
    for i, array in enumerate(arrays):
        owner = array if array.base is None else array.base
        owners[id(owner)] = owner.nbytes
        arrays[i] = id(owner)
    return sum(owners.values())


@wrong("1.3", cause="raised an error")
def stops_the_counter(x):
    import tracemalloc

    tracemalloc.start()
    x /= x.sum(axis=1, keepdims=True)
    tracemalloc.stop()


@wrong("1.4", cause="wrong values")
def by_way_of_float32(points, block_rows):
    points = points.astype(np.float32)
    n = len(points)
    mean, largest = np.empty(n), np.empty(n)
    for start in range(0, n, block_rows):
        rows = slice(start, start + block_rows)
        distance = np.sqrt(((points[rows, None] - points) ** 2).sum(axis=2))
        mean[rows], largest[rows] = distance.mean(axis=1), distance.max(axis=1)
    return mean, largest


_last_block = []


@wrong("1.4", cause="left something behind")
def remembers_its_last_block(points, block_rows):
    n = len(points)
    mean, largest = np.empty(n), np.empty(n)
    for start in range(0, n, block_rows):
        rows = slice(start, start + block_rows)
        distance = np.sqrt(((points[rows, None] - points) ** 2).sum(axis=2))
        mean[rows], largest[rows] = distance.mean(axis=1), distance.max(axis=1)
    _last_block[:] = [distance]
    return mean, largest
