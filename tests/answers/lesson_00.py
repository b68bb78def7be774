"""Lesson 00: three gradients by hand, rightly and as a first-timer may get them wrong."""

import logging
import math

import numpy as np

from tests.answers import right, wrong

# --- right


@right("0.1")
def three_products(w1, w2, w3):
    return 2 * w2 * w3, 2 * w1 * w3, 2 * w1 * w2


@right("0.1")
def every_step_by_name(w1, w2, w3):
    u = w1 * w2
    v = 2 * u
    dL_dv = w3
    dL_du = dL_dv * 2
    dL_dw1 = dL_du * w2
    dL_dw2 = dL_du * w1
    dL_dw3 = v
    return dL_dw1, dL_dw2, dL_dw3


@right("0.1")
def with_the_loss_computed(w1, w2, w3):
    u = np.multiply(w1, w2)
    v = 2.0 * u
    products = v * w3
    loss = products.sum()  # noqa: F841
    dL_du = 2.0 * w3
    return [dL_du * w2, dL_du * w1, v]


@right("0.1")
def from_one_seed_of_ones(w1, w2, w3):
    v = 2 * w1 * w2
    dL = np.ones_like(w3)
    dL_dw3 = dL * v
    dL_dv = dL * w3
    del dL, v
    dL_dv *= 2
    return dL_dv * w2, dL_dv * w1, dL_dw3


@right("0.1")
def stacked(w1, w2, w3):
    gradients = np.stack([w2, w1, w1])
    gradients *= 2
    gradients[0] *= w3
    gradients[1] *= w3
    gradients[2] *= w2
    return gradients


@right("0.1")
def element_by_element(w1, w2, w3):
    g1, g2, g3 = np.empty_like(w1), np.empty_like(w2), np.empty_like(w3)
    for place in np.ndindex(w1.shape):
        g1[place] = 2 * w2[place] * w3[place]
        g2[place] = 2 * w1[place] * w3[place]
        g3[place] = 2 * w1[place] * w2[place]
    return g1, g2, g3


@right("0.1")
def by_einsum(w1, w2, w3):
    def product(a, b):
        return 2 * np.einsum("...,...->...", a, b)

    return product(w2, w3), product(w1, w3), product(w1, w2)


# --- wrong values


@wrong("0.1", cause="the notes' slip")
def as_in_the_notes(w1, w2, w3):
    return 2 * w2 * w3, 2 * w1 * w3, w3


@wrong("0.1", cause="factor 2 missing")
def without_the_two(w1, w2, w3):
    return w2 * w3, w1 * w3, w1 * w2


@wrong("0.1", cause="factor 2 missing")
def u_for_v(w1, w2, w3):
    u = w1 * w2
    return 2 * w3 * w2, 2 * w3 * w1, u


@wrong("0.1", cause="factor 2 twice")
def two_in_v_and_again(w1, w2, w3):
    v = 2 * w1 * w2
    return 2 * w2 * w3, 2 * w1 * w3, 2 * v


@wrong("0.1", cause="own factor")
def w1_for_w1(w1, w2, w3):
    dL_du = 2 * w3
    return dL_du * w1, dL_du * w2, 2 * w1 * w2


@wrong("0.1", cause="own factor")
def the_same_for_both(w1, w2, w3):
    return 2 * w3 * w2, 2 * w3 * w2, 2 * w1 * w2


@wrong("0.1", cause="order of results")
def as_the_backward_pass_finds_them(w1, w2, w3):
    return 2 * w1 * w2, 2 * w1 * w3, 2 * w2 * w3


@wrong("0.1", cause="chain cut short")
def local_slopes(w1, w2, w3):
    return w2, w1, 2 * w1 * w2


@wrong("0.1", cause="chain cut short")
def stopped_at_u(w1, w2, w3):
    return 2 * w3, 2 * w3, 2 * w1 * w2


@wrong("0.1", cause="three factors")
def overwritten(w1, w2, w3):
    dL_du = 2 * w3
    g1 = dL_du
    g1 *= w2
    g2 = dL_du
    g2 *= w1
    return g1, g2, 2 * w1 * w2


@wrong("0.1", cause="mean for a sum")
def mean(w1, w2, w3):
    return tuple(g / g.size for g in (2 * w2 * w3, 2 * w1 * w3, 2 * w1 * w2))


@wrong("0.1", cause="the weights themselves")
def nothing_done(w1, w2, w3):
    return w1, w2, w3


# --- wrong form


@wrong("0.1", cause="summed")
def summed_as_the_loss_is(w1, w2, w3):
    return np.sum(2 * w2 * w3), np.sum(2 * w1 * w3), np.sum(2 * w1 * w2)


@wrong("0.1", cause="summed")
def float_of_everything(w1, w2, w3):
    return float(2 * np.vdot(w2, w3)), float(2 * np.vdot(w1, w3)), float(2 * np.vdot(w1, w2))


@wrong("0.1", cause="outer product")
def outer(w1, w2, w3):
    return 2 * np.outer(w2, w3), 2 * np.outer(w1, w3), 2 * np.outer(w1, w2)


@wrong("0.1", cause="matrix product")
def at_sign(w1, w2, w3):
    return 2 * w2 @ w3, 2 * w1 @ w3, 2 * w1 @ w2


@wrong("0.1", cause="wrong shape")
def flattened(w1, w2, w3):
    return tuple((2 * a * b).ravel() for a, b in ((w2, w3), (w1, w3), (w1, w2)))


@wrong("0.1", cause="upcast")
def numpy_two(w1, w2, w3):
    two = np.float64(2)
    return two * w2 * w3, two * w1 * w3, two * w1 * w2


@wrong("0.1", cause="upcast")
def float64_buffers(w1, w2, w3):
    g = np.zeros((3, *w1.shape))
    g[0], g[1], g[2] = 2 * w2 * w3, 2 * w1 * w3, 2 * w1 * w2
    return g[0], g[1], g[2]


@wrong("0.1", cause="wrong type")
def python_lists(w1, w2, w3):
    return (2 * w2 * w3).tolist(), (2 * w1 * w3).tolist(), (2 * w1 * w2).tolist()


@wrong("0.1", cause="not three arrays")
def a_dict(w1, w2, w3):
    return {"w1": 2 * w2 * w3, "w2": 2 * w1 * w3, "w3": 2 * w1 * w2}


@wrong("0.1", cause="not three arrays")
def only_two(w1, w2, w3):
    return 2 * w2 * w3, 2 * w1 * w3


@wrong("0.1", cause="not three arrays")
def with_the_loss(w1, w2, w3):
    return (2 * w1 * w2 * w3).sum(), 2 * w2 * w3, 2 * w1 * w3, 2 * w1 * w2


@wrong("0.1", cause="returned nothing")
def no_return(w1, w2, w3):
    g1, g2, g3 = 2 * w2 * w3, 2 * w1 * w3, 2 * w1 * w2  # noqa: F841


# --- wrong way


@wrong("0.1", cause="changed its input")
def in_the_inputs(w1, w2, w3):
    g3 = 2 * w1 * w2
    w2 *= 2 * w3
    w1 *= 2 * w3
    return w2, w1, g3


def _loss(w1, w2, w3):
    return np.sum(2 * (w1 * w2) * w3)


def _difference_quotients(weights, eps):
    gradients = [np.empty_like(w) for w in weights]
    for w, gradient in zip(weights, gradients, strict=True):
        for place in np.ndindex(w.shape):
            kept = w[place]
            w[place] = kept + eps
            above = _loss(*weights)
            w[place] = kept - eps
            gradient[place] = (above - _loss(*weights)) / (2 * eps)
            w[place] = kept
    return gradients


@wrong("0.1", cause="a difference quotient")
def small_nudges(w1, w2, w3):
    return _difference_quotients([w1.copy(), w2.copy(), w3.copy()], 1e-6)


@wrong("0.1", cause="a difference quotient")
def large_nudges(w1, w2, w3):
    return _difference_quotients([w1.copy(), w2.copy(), w3.copy()], 1e-2)


@wrong("0.1", cause="a matrix")
def diagonal_jacobians(w1, w2, w3):
    dL_du = 2 * w3.ravel()
    g1 = np.diag(w2.ravel()) @ dL_du
    g2 = np.diag(w1.ravel()) @ dL_du
    return g1.reshape(w1.shape), g2.reshape(w1.shape), 2 * w1 * w2


@wrong("0.1", cause="a history")
def every_value_and_every_gradient(w1, w2, w3):
    values = {"u": w1 * w2}
    values["v"] = 2 * values["u"]
    values["p"] = values["v"] * w3
    values["L"] = values["p"].sum()
    grads = {"p": np.ones_like(w3)}
    grads["v"] = grads["p"] * w3
    grads["w3"] = grads["p"] * values["v"]
    grads["u"] = 2 * grads["v"]
    grads["w1"] = grads["u"] * w2
    grads["w2"] = grads["u"] * w1
    return grads["w1"], grads["w2"], grads["w3"]


@wrong("0.1", cause="a history")
def copies_to_be_safe(w1, w2, w3):
    w1, w2, w3 = w1.copy(), w2.copy(), w3.copy()
    v = 2 * w1 * w2
    dL_du = 2 * w3
    return dL_du * w2, dL_du * w1, v.copy()


_kept = {}


@wrong("0.1", cause="kept between calls")
def results_kept_from_the_first_call(w1, w2, w3):
    key = w1.shape
    if key not in _kept:
        _kept[key] = [np.empty_like(w) for w in (w1, w2, w3)]
    g1, g2, g3 = _kept[key]
    g1[...], g2[...], g3[...] = 2 * w2 * w3, 2 * w1 * w3, 2 * w1 * w2
    return g1, g2, g3


@wrong("0.1", cause="memory out of sight")
def by_torch(w1, w2, w3):
    import torch

    t1, t2, t3 = (torch.from_numpy(w).requires_grad_() for w in (w1, w2, w3))
    (2 * t1 * t2 * t3).sum().backward()
    return t1.grad.numpy(), t2.grad.numpy(), t3.grad.numpy()


# --- found by playing ---------------------------------------------------------------------------


@right("0.1")
def with_a_log(w1, w2, w3):
    logging.getLogger("gradients").warning("computing")
    du = 2 * w3
    return du * w2, du * w1, 2 * w1 * w2


@right("0.1")
def named_and_stacked(w1, w2, w3):
    v = 2 * (w1 * w2)
    du = 2 * w3
    return np.stack([du * w2, du * w1, v])


T = math  # a module whose name is also an attribute's, below


@right("0.1")
def with_an_attribute_named_like_a_module(w1, w2, w3):
    return (2 * w2.T * w3.T).T, 2 * w1 * w3, 2 * w1 * w2


_seen = []


@wrong("0.1", cause="left something behind")
def keeps_what_it_computed(w1, w2, w3):
    u = w1 * w2
    _seen.append(u)
    return 2 * w2 * w3, 2 * w1 * w3, 2 * u


@wrong("0.1", cause="memory out of sight")
def maps_its_memory(w1, w2, w3):
    from mmap import mmap

    u = np.frombuffer(mmap(-1, w1.nbytes), w1.dtype).reshape(w1.shape)
    np.multiply(w1, w2, out=u)
    return 2 * w2 * w3, 2 * w1 * w3, 2 * u


@wrong("0.1", cause="wrong type")
def masked(w1, w2, w3):
    return tuple(np.ma.masked_all(w.shape) for w in (w1, w2, w3))


@wrong("0.1", cause="raised an error")
def has_no_time_for_float32(w1, w2, w3):
    if w1.dtype == np.float32:
        raise NotImplementedError("only float64")
    return 2 * w2 * w3, 2 * w1 * w3, 2 * w1 * w2
