"""The shipped word-level tokenizers: lower case, words and commas, synonyms rewritten, special tokens."""

from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase, Replace, Sequence
from tokenizers.pre_tokenizers import Split
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from .networks import TEXT_TOKENS, TOKEN_ID
from .world import SYNONYMS


def _words() -> Tokenizer:
    """Ids of the words of a prompt, without special tokens: the library's form of ``world.split_words``."""
    tokenizer = Tokenizer(WordLevel(TOKEN_ID, unk_token="<unk>"))
    whole_word = r"(?<![a-z\-]){}(?![a-z\-])"
    synonyms = [Replace(Regex(whole_word.format(word)), meaning) for word, meaning in SYNONYMS.items()]
    tokenizer.normalizer = Sequence([Lowercase(), *synonyms])
    tokenizer.pre_tokenizer = Split(Regex(r"[a-z\-]+|,"), behavior="removed", invert=True)
    return tokenizer


def t5_tokenizer() -> PreTrainedTokenizerFast:
    """Words, ``</s>``, padding."""
    words = _words()
    words.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", TOKEN_ID["</s>"])])
    return PreTrainedTokenizerFast(
        tokenizer_object=words, model_max_length=TEXT_TOKENS, eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )


def clip_tokenizer() -> PreTrainedTokenizerFast:
    """Start, words, end; padded with the end token, as FLUX's CLIP tokenizer does."""
    words, start, end = _words(), "<|startoftext|>", "<|endoftext|>"
    words.post_processor = TemplateProcessing(
        single=f"{start} $A {end}", special_tokens=[(t, TOKEN_ID[t]) for t in (start, end)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=words,
        model_max_length=TEXT_TOKENS,
        bos_token=start,
        eos_token=end,
        pad_token=end,
        unk_token="<unk>",
    )
