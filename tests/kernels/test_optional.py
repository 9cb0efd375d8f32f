"""Back ends that call other packages: found without an import, refused with a reason, called as they document it.

None of the packages is here. Stand-ins that follow their documentation, on the CPU, show that shapes, flags and
log-sum-exps are passed on rightly; a GPU must show the rest (``pipegraph kernels attention --prove NAME``).
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.kernels import dispatch
from pipegraph.kernels.backends.packages import installed
from pipegraph.kernels.backends.packages.linear import without_fp8
from pipegraph.kernels.backends.torch.attention_reference import reference
from pipegraph.kernels.backends.triton import available
from pipegraph.kernels.backends.triton.available import AHEAD
from pipegraph.kernels.dispatch import backends, explain, forget
from pipegraph.kernels.ops.attention import Signature
from pipegraph.kernels.testing import conformance
from pipegraph.kernels.weights.qweight import Layout

PACKAGES = ("flash_attn", "flashinfer", "sageattention", "comfy_kitchen")


def test_listing_imports_none_of_them() -> None:
    code = f"""
import sys
from pipegraph.kernels.dispatch import explain
explain("attention"), explain("linear")
assert not {{*{PACKAGES!r}, "triton"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_missing_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    why = {r.backend: r.why for r in explain("attention")}
    assert why["flash-attn"] == "flash-attn is not installed" and why["sage"] == "sageattention is not installed"
    monkeypatch.setattr(installed, "version_of", lambda name: "1.5")
    assert installed.lacks("flash-attn", "2.6") == "flash-attn 1.5 is too old; needs 2.6"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert installed.lacks("flash-attn", "1.0") == "no CUDA device"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    assert installed.lacks("flash-attn", "1.0") == "needs compute capability 8.0; this device has 7.5"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    assert installed.lacks("flash-attn", "1.0") == ""


def signature(**changes: Any) -> Signature:
    shape = (1, 8, 64, 128)
    plain = Signature(shape, shape, shape, torch.bfloat16, "cuda", None, None, False, None, False, "exact")
    return plain._replace(**changes)


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        ("flash-attn", dict(device="cpu"), "takes cuda tensors, not cpu"),
        ("flash-attn", dict(dtype=torch.float32), "takes float16 and bfloat16, not float32"),
        ("flash-attn", dict(mask=(1, 1, 64, 64)), "has no mask"),
        ("flash-attn", dict(v=(1, 8, 64, 64)), "does not take head sizes 128 and 64"),
        ("flash-attn", dict(k=(1, 8, 0, 128), v=(1, 8, 0, 128)), "takes no empty batch, queries or keys"),
        ("flash-attn", dict(causal=True, window=9, lse=True, softcap=True), ""),
        ("flashinfer", dict(q=(2, 8, 64, 96), v=(2, 8, 64, 96)), "does not take head sizes 96 and 96"),
        ("flashinfer", dict(k=(1, 8, 9, 128), causal=True), "leaves open what rows give that see no key"),
        ("sage", dict(causal=True, k=(1, 8, 99, 128)), "causal needs as many queries as keys"),
        ("sage", dict(lse=True), "has no lse"),
        ("comfy-kitchen", dict(mask=(64, 64), bias=(64, 64)), "takes a mask or a bias, not both"),
        ("comfy-kitchen", dict(mask=(64, 64)), ""),
        ("cudnn", dict(sinks=True), "has no sinks"),
        ("cudnn", dict(mask=(64, 64)), ""),
    ],
)
def test_refusals(name: str, changes: dict[str, Any], why: str) -> None:
    assert backends("attention")[name].refuses(signature(**changes)) == why


def test_exact_ones_rank_below_torch_and_reduced_ones_are_said_to_be() -> None:
    found = backends("attention")
    for name in ("cudnn", "flash-attn", "flashinfer"):
        assert found[name].numerics == "exact"
        assert found["reference"].rank(signature()) < found[name].rank(signature()) < found["torch"].rank(signature())
    assert found["sage"].numerics == found["comfy-kitchen"].numerics == "reduced"
    assert backends("linear")["scaled-mm"].numerics == "reduced"


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks what is said without a GPU")
@pytest.mark.parametrize(
    ("ahead", "why"),
    [("", "no CUDA device"), ("sm_80", "sm_80 has no e4m3fn"), ("gfx942", "gfx942 has no e4m3fn"), ("sm_90", "")],
)
def test_fp8_products_need_a_device_that_has_them(ahead: str, why: str) -> None:
    layout = Layout(torch.float8_e4m3fn, None, None, 1)
    usual = dispatch._ops["linear"].sample("cuda", "bfloat16")
    token = AHEAD.set(ahead)
    try:
        assert backends("linear")["scaled-mm"].verdict(usual._replace(format="fp8", stored=None, layout=layout)) == why
    finally:
        AHEAD.reset(token)


@pytest.mark.parametrize(
    ("hip", "device", "why"),
    [
        (None, dict(major=8, minor=9), ""),
        (None, dict(major=8, minor=6), "sm_86 has no e4m3fn"),
        ("7.0", dict(major=11, minor=0, gcnArchName="gfx1100"), "gfx1100 has no e4m3fn"),
        ("7.0", dict(major=9, minor=5, gcnArchName="gfx950:sramecc+:xnack-"), ""),
    ],
)
def test_fp8_products_are_judged_by_the_architecture_without_triton_too(
    hip: str | None, device: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(available, "_of_device", available._of_device.__wrapped__)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    properties = SimpleNamespace(**device, multi_processor_count=96)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: properties)
    monkeypatch.setattr(torch.version, "hip", hip)
    assert without_fp8() == why and available.processors() == 96


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """(B, S, H, D); rows that see nothing have a log-sum-exp of +inf; what is hidden is multiplied by 0."""
    assert window_size[1] == (0 if window_size[0] >= 0 else -1) and softmax_scale
    out, lse = reference(
        q.transpose(1, 2),
        k.transpose(1, 2),
        v.transpose(1, 2),
        causal=causal,
        scale=softmax_scale,
        return_lse=True,
        window=window_size[0] + 1 if window_size[0] >= 0 else None,
        softcap=softcap or None,
    )
    out = (out + 0 * v.repeat_interleave(q.shape[2] // v.shape[2], 2).sum(1)[:, :, None]).transpose(1, 2)
    return (out, lse.masked_fill(lse == -math.inf, math.inf), None) if return_attn_probs else out


def single_prefill_with_kv_cache(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool,
    sm_scale: float,
    window_left: int,
    logits_soft_cap: float | None,
    return_lse: bool,
) -> Any:
    """(S, H, D), the log-sum-exp (S, H) in base 2."""
    out, lse = reference(
        *(t.transpose(0, 1)[None] for t in (q, k, v)),
        causal=causal,
        scale=sm_scale,
        return_lse=True,
        window=window_left + 1 if window_left >= 0 else None,
        softcap=logits_soft_cap,
    )
    out, lse = out[0].transpose(0, 1), lse[0].T / math.log(2)
    return (out, lse) if return_lse else out


def sageattn(q: Tensor, k: Tensor, v: Tensor, tensor_layout: str, is_causal: bool, sm_scale: float) -> Tensor:
    assert tensor_layout == "HND" and q.stride(-1) == 1
    return rounded(reference(q, k, v, causal=is_causal, scale=sm_scale))


def int8_attention(q: Tensor, k: Tensor, v: Tensor, *, scale: float, attn_mask: Tensor | None) -> Tensor:
    kind = "bias" if attn_mask is not None and attn_mask.is_floating_point() else "mask"
    return rounded(reference(q, k, v, scale=scale, **{kind: attn_mask}))  # type: ignore[arg-type]


def rounded(out: Any) -> Tensor:
    return (out * 64).round() / 64  # type: ignore[no-any-return]


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The packages as if they were there and took CPU tensors."""
    functions = (flash_attn_func, single_prefill_with_kv_cache, sageattn, int8_attention)
    for name, function in zip(PACKAGES, functions, strict=True):
        module = ModuleType(name)
        setattr(module, function.__name__, function)
        monkeypatch.setitem(sys.modules, name, module)
    known = dict(backends("attention"))
    for name in ("flash-attn", "flashinfer", "sage", "comfy-kitchen"):
        b = known[name]
        on_cpu = replace(b, missing=lambda: "", refuses=lambda s, b=b: b.refuses(s._replace(device="cuda")))  # type: ignore[misc]
        monkeypatch.setitem(dispatch._backends["attention"], name, on_cpu)
    forget()
    yield
    forget()


@pytest.mark.parametrize(
    ("name", "least"), [("flash-attn", 30), ("flashinfer", 10), ("sage", 6), ("comfy-kitchen", 20)]
)
def test_adapters_pass_the_kit_over_stand_ins(name: str, least: int, stand_ins: None) -> None:
    report = conformance("attention", name, dtypes=(torch.float16, torch.bfloat16))
    assert report.passed and report.served >= least, report


def test_log_sum_exps_of_adapters(stand_ins: None) -> None:
    from pipegraph.kernels.ops.attention import attention

    q, k, v = torch.randn(3, 1, 2, 9, 64, generator=torch.Generator().manual_seed(0)).half()
    for name, keys in (("flash-attn", 5), ("flashinfer", 9)):
        call = dict(causal=True, return_lse=True)
        want = attention(q, k[:, :, :keys], v[:, :, :keys], backend="reference", **call)  # type: ignore[call-overload]
        got = attention(q, k[:, :, :keys], v[:, :, :keys], backend=name, **call)  # type: ignore[call-overload]
        torch.testing.assert_close(got, want)
