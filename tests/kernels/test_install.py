"""The real network classes on the kernel layer: the same numbers, and nothing that goes round it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pipegraph.kernels.audit import Bypass, audit, strict
from pipegraph.kernels.dispatch import KernelError, use
from pipegraph.kernels.hooks.install import install
from pipegraph.kernels.hooks.modules import KernelLinear, side_paths
from pipegraph.kernels.ops.linear import LowRank

spec = importlib.util.spec_from_file_location("networks", Path(__file__).with_name("networks.py"))
assert spec and spec.loader
networks: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(networks)
run = networks.run
# diffusers' own use of a class that it deprecates itself
pytestmark = pytest.mark.filterwarnings("ignore:`FluxPosEmbed` is deprecated:FutureWarning")
Make = Callable[[], tuple[nn.Module, dict[str, Any]]]

NETWORKS = [  # and its attentions a call
    (networks.flux, 2),
    (networks.flux_controlnet, 2),
    (networks.autoencoder, 2),
    (networks.clip, 2),
    (networks.t5, 2),
]


def linears(network: nn.Module) -> int:
    return sum(isinstance(m, nn.Linear) for m in network.modules())


@pytest.mark.parametrize(("make", "attentions"), NETWORKS)
@pytest.mark.parametrize("grad", [torch.no_grad, torch.inference_mode])
def test_same_result_and_nothing_escapes(make: Make, attentions: int, grad: Any) -> None:
    network, call = make()
    want, keys = run(network, call), {k: v.data_ptr() for k, v in network.state_dict().items()}
    install(network)
    install(network)  # harmless
    assert {k: v.data_ptr() for k, v in network.state_dict().items()} == keys
    with grad(), strict() as seen:
        got = run(network, call)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    assert seen.attention == attentions
    assert seen.linear == linears(network)
    with use(attention="reference", linear="reference"), strict() as again:
        torch.testing.assert_close(run(network, call), want, rtol=1e-5, atol=1e-5)
    assert again.inside == seen.inside


@pytest.mark.parametrize(("make", "attentions"), NETWORKS)
def test_a_network_that_is_not_installed_is_caught(make: Make, attentions: int) -> None:
    network, call = make()
    with pytest.raises(Bypass, match="bypassed the kernel layer"), strict():
        run(network, call)
    with audit() as seen:
        run(network, call)
    assert not any(seen.inside.values())
    assert len([e for e in seen.escaped if e.aten in ("mm", "addmm", "linear")]) >= linears(network)
    assert sum("scaled_dot_product" in e.aten for e in seen.escaped) == attentions


@pytest.mark.parametrize(("make", "attentions"), NETWORKS)
def test_one_layer_put_back_is_caught(make: Make, attentions: int) -> None:
    network, call = make()
    install(network)
    layer = next(m for m in network.modules() if isinstance(m, KernelLinear))
    layer.__class__ = nn.Linear  # type: ignore[assignment]
    with pytest.raises(Bypass, match=r"^1 launches"), strict():
        run(network, call)


def test_one_attention_put_back_is_caught() -> None:
    from diffusers.models.attention_processor import AttnProcessor2_0

    network, call = networks.autoencoder()
    install(network)
    network.decoder.mid_block.attentions[0].set_processor(AttnProcessor2_0())
    with pytest.raises(Bypass, match=r"1 launches .*\n.*scaled_dot_product.*attention_processor.py"), strict():
        run(network, call)


def test_small_products_can_be_let_through() -> None:
    with strict(min_flops=3 * 4 * 5 + 1):
        torch.ones(3, 4) @ torch.ones(4, 5)
    with pytest.raises(Bypass), strict(min_flops=3 * 4 * 5):
        torch.ones(3, 4) @ torch.ones(4, 5)


def test_other_models_of_the_same_configuration_stay_as_they_were() -> None:
    from transformers import CLIPTextModel

    network, call = networks.clip()
    sibling = CLIPTextModel(network.config).eval()
    before = run(sibling, call)
    install(network)
    assert sibling.config._attn_implementation != "pipegraph"
    assert torch.equal(run(sibling, call), before)


def test_causal_text_is_causal_with_and_without_padding() -> None:
    network, call = networks.clip()
    install(network)
    for mask in (call["attention_mask"], torch.ones_like(call["attention_mask"])):
        with torch.no_grad():
            base = network(input_ids=call["input_ids"], attention_mask=mask)[0]
            changed = call["input_ids"].clone()
            changed[:, 5] = 3
            other = network(input_ids=changed, attention_mask=mask)[0]
        assert torch.equal(base[:, :5], other[:, :5]) and not torch.equal(base[:, 5], other[:, 5])


def test_what_cannot_be_installed_is_refused() -> None:
    from diffusers import SD3Transformer2DModel

    sd3 = SD3Transformer2DModel(
        sample_size=8,
        patch_size=1,
        in_channels=4,
        num_layers=1,
        attention_head_dim=8,
        num_attention_heads=2,
        caption_projection_dim=16,
        joint_attention_dim=16,
        pooled_projection_dim=16,
    )
    with pytest.raises(KernelError, match="JointAttnProcessor2_0"):
        install(sd3)
    with pytest.raises(KernelError, match="MultiheadAttention"):
        install(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True))


def test_weights_stored_in_half_compute_in_the_input_dtype() -> None:
    network, call = networks.flux()
    install(network)
    want = run(network, call)
    for layer in network.modules():
        if isinstance(layer, KernelLinear):
            layer.weight.data = layer.weight.data.half()
    got = run(network, call)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, want, rtol=1e-2, atol=1e-2)


def test_side_paths_hold_inside_only_and_are_not_stacked_by_accident() -> None:
    layer = nn.Linear(4, 3)
    x = torch.randn(2, 4)
    path = LowRank(torch.randn(1, 4), torch.randn(3, 1))
    with pytest.raises(ValueError, match="call `install`"), side_paths({layer: path}):
        pass
    before = layer(x)
    KernelLinear.adopt(layer)
    with side_paths({layer: path}):
        torch.testing.assert_close(layer(x), before + x @ (path.up @ path.down).T)
        with pytest.raises(ValueError, match="has a side path already"), side_paths({layer: path}):
            pass
    assert torch.equal(layer(x), before)


ATTENTIONS: list[dict[str, Any]] = [
    dict(query_dim=16, heads=2, dim_head=8),
    dict(query_dim=16, heads=2, dim_head=8, cross_attention_dim=12, cross_attention_norm="layer_norm"),
    dict(query_dim=16, heads=1, dim_head=16, norm_num_groups=4, residual_connection=True, rescale_output_factor=2.0),
    dict(query_dim=16, heads=2, dim_head=8, scale_qk=False),
    dict(query_dim=16, heads=2, dim_head=8, qk_norm="layer_norm"),
]


@pytest.mark.parametrize("config", ATTENTIONS)
def test_processor_equals_diffusers(config: dict[str, Any]) -> None:
    """The processor for diffusers' older attention blocks, beyond what the autoencoder uses of it."""
    from diffusers.models.attention_processor import Attention

    torch.manual_seed(0)
    block = Attention(**config, bias=True).eval()
    cross = config.get("cross_attention_dim")
    calls: list[dict[str, Any]] = [dict(hidden_states=networks.noise(2, 5, 16))]
    if cross:
        mask = torch.zeros(2, 1, 7)
        mask[1, 0, 4:] = -10000.0
        calls = [dict(hidden_states=networks.noise(2, 5, 16), encoder_hidden_states=networks.noise(2, 7, cross))]
        calls.append(calls[0] | dict(attention_mask=mask))
    else:
        calls.append(dict(hidden_states=networks.noise(2, 16, 3, 4)))
    with torch.no_grad():
        want = [block(**call) for call in calls]
        install(block)
        with strict() as seen:
            got = [block(**call) for call in calls]
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    assert seen.attention == len(calls)


def test_language_model_with_left_padding_and_a_cache() -> None:
    """Grouped heads, a causal mask over padding, and a step whose single query sees all that came before."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=99,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    network: Any = LlamaForCausalLM(config).eval()
    mask = torch.ones(2, 8, dtype=torch.int64)
    mask[1, :3] = 0
    tokens = networks.text_call()["input_ids"][:, :8]
    places = (mask.cumsum(-1) - 1).clamp(min=0)

    def steps() -> list[torch.Tensor]:
        with torch.no_grad():
            first = network(input_ids=tokens[:, :6], attention_mask=mask[:, :6], position_ids=places[:, :6])
            cache, logits = first.cache, [first.logits[:, 3:]]
            for i, j in ((6, 7), (7, 8)):
                out = network(
                    input_ids=tokens[:, i:j], attention_mask=mask[:, :j], position_ids=places[:, i:j], cache=cache
                )
                logits.append(out.logits)
        return logits

    want = steps()
    install(network)
    with strict() as seen:
        got = steps()
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    assert seen.attention == 6
