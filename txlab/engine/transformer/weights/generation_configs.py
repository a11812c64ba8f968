"""generation_config.json: the authors' generation settings, so that a model generates here as it does in transformers.

Without such a file the same keys are taken from config.json, as in transformers. A key that implies others (do_sample a
top_k, num_beams a length_penalty) implies transformers' defaults for them. The caller of generation may override these
settings; unsupported keys are listed, so that they can be reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from txlab.engine.tokenizers.json_files import format_value, read_json
from txlab.engine.transformer.beam import EarlyStopping
from txlab.engine.transformer.generation import FREE, Rules
from txlab.engine.transformer.weights.families import Config
from txlab.engine.transformer.weights.safetensors import CONFIG, LARGEST_CONFIG
from txlab.errors import LabError, prefix_errors

GENERATION = "generation_config.json"
MOST_BEAMS = 32  # of a file: each beam has a cache of its own; --beam takes any number
LONGEST_TEXT = 1 << 30  # tokens
ROLES = {"start": "decoder_start_token_id", "begin": "bos_token_id", "end": "eos_token_id", "pad": "pad_token_id"}
# Keys about how generation is computed and returned, which do not affect the text.
SILENT = frozenset({
    "_from_model_config", "transformers_version", "use_cache", "cache_implementation", "cache_config", "max_cache_len",
    "return_legacy_cache", "output_attentions", "output_hidden_states", "output_scores", "output_logits",
    "return_dict_in_generate", "num_return_sequences", "compile_config", "disable_compile", "prefill_chunk_size",
    "low_memory",
})  # fmt: skip
# Unsupported keys that would change the text, with the value at which they have no effect.
NOT_COMPUTED: dict[str, Any] = dict.fromkeys(
    ("typical_p", "encoder_repetition_penalty", "guidance_scale", "num_beam_groups"), 1
) | dict.fromkeys(
    ("min_length", "min_new_tokens", "epsilon_cutoff", "eta_cutoff", "no_repeat_ngram_size", "penalty_alpha",
     "encoder_no_repeat_ngram_size", "diversity_penalty", "remove_invalid_values", "token_healing"), 0
) | dict.fromkeys(
    ("max_time", "stop_strings", "min_p", "top_h", "sequence_bias", "exponential_decay_length_penalty",
     "watermarking_config", "dola_layers", "constraints", "force_words_ids")
)  # fmt: skip


@dataclass(frozen=True)
class Generation:
    """The generation settings of a model; empty where none are given.

    file      their source: generation_config.json, or config.json if there is no such file
    ends      ids each of which ends a text
    special   "start", "begin", "end", "pad" → id
    rules     constraints on the text
    said      the supported keys, under their names in the file, and those they imply
    unknown   unsupported keys that would change the text, and those of `refused`
    refused   keys whose values cannot be used → a sentence about each; "" is the whole file. Only a command that needs
              such a value refuses the model: a text is scored without them
    """

    file: str = ""
    ends: tuple[int, ...] = ()
    special: Mapping[str, int] = field(default_factory=dict)
    rules: Rules = FREE
    given: Mapping[str, Any] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    def needs(self, keys: Iterable[str]) -> None:
        """Raise LabError for the first of these keys that has a value which cannot be used."""
        for key in ("", *keys):
            if key in self.refused:
                raise LabError(self.refused[key])

    def most(self, before: int) -> int | None:
        """Return how many tokens may follow `before` tokens (for a target, its start); None if no limit is given."""
        new: int | None = self.given.get("max_new_tokens")
        return max(1, self.given["max_length"] - before) if new is None and "max_length" in self.given else new


UNSAID = Generation()


# How each value is read, from (config, vocabulary).
READERS: dict[str, Callable[[Config, int], Any]] = {
    "max_new_tokens": lambda given, _: given.whole("max_new_tokens", 1, LONGEST_TEXT, 1),
    "max_length": lambda given, _: given.whole("max_length", 1, LONGEST_TEXT, 1),
    "num_beams": lambda given, _: given.whole("num_beams", 1, MOST_BEAMS, 1),
    "length_penalty": lambda given, _: given.number("length_penalty", -100, 100, 1.0),
    "early_stopping": lambda given, _: early_stopping(given),
    "do_sample": lambda given, _: given.flag("do_sample", False),
    "temperature": lambda given, _: given.number("temperature", 1e-6, 1e6, 1.0),
    "top_k": lambda given, _: given.whole("top_k", 0, 1 << 30, 50),
    "top_p": lambda given, _: given.number("top_p", 0, 1, 1.0),
    "repetition_penalty": lambda given, _: given.number("repetition_penalty", 1e-6, 1e6, 1.0),
    "bad_words_ids": lambda given, _: rows(given, "bad_words_ids"),
    "suppress_tokens": lambda given, _: ids(given, "suppress_tokens"),
    "begin_suppress_tokens": lambda given, _: ids(given, "begin_suppress_tokens"),
    "forced_bos_token_id": lambda given, vocabulary: ids(given, "forced_bos_token_id", 0, vocabulary),
    "forced_eos_token_id": lambda given, vocabulary: ids(given, "forced_eos_token_id", 0, vocabulary),
    "renormalize_logits": lambda given, _: given.flag("renormalize_logits", False),
}
ENDS = "eos_token_id"
ROLE_READERS: dict[str, Callable[[Config, int], Any]] = {ENDS: lambda given, _: ids(given, ENDS)} | {
    key: lambda given, vocabulary, key=key: given.token_id(key, vocabulary)  # type: ignore[misc]
    for key in ROLES.values()
    if key != ENDS
}


def read_generation(folder: Path, config: Mapping[str, Any], vocabulary: int) -> Generation:
    """Read the generation settings of a folder; those that cannot be used are in `refused`."""
    if not (folder / GENERATION).exists():
        return generation_of(config, CONFIG, vocabulary)
    try:
        with prefix_errors(GENERATION):
            content = read_json(folder / GENERATION, LARGEST_CONFIG)
        if not isinstance(content, dict):
            raise LabError(f"{GENERATION} must be an object, not {format_value(content)}")
    except LabError as error:
        return Generation(GENERATION, refused={"": str(error)})
    return generation_of(content, GENERATION, vocabulary)


def generation_of(content: Mapping[str, Any], file: str, vocabulary: int) -> Generation:
    """Return the generation settings in the content of a file."""
    given, values, refused = Config(content, file), {}, {}
    for key, read in (READERS | ROLE_READERS).items():
        try:
            values[key] = read(given, vocabulary)
        except LabError as error:
            refused[key] = str(error)
            values[key] = read(Config({}, file), vocabulary)
    ends = values[ENDS]
    special = {role: values[key] for role, key in ROLES.items() if key != ENDS}
    special["end"] = next((token if 0 <= token < vocabulary else None for token in ends), None)
    values = {key: values[key] for key in READERS}
    neutral = {"num_beams": 1, "top_p": 1.0, "repetition_penalty": 1.0, "renormalize_logits": False}
    there = {key for key, value in values.items() if key in given and value not in (neutral.get(key), [])}
    brought = {"length_penalty", "early_stopping"} if values["num_beams"] > 1 else set()
    brought |= {"temperature", "top_k"} if values["do_sample"] else set()
    others = set(content) - set(values) - set(ROLES.values()) - SILENT if file == GENERATION else set(NOT_COMPUTED)
    return Generation(
        file=file,
        ends=tuple(token for token in ends if 0 <= token < vocabulary),
        special={role: token for role, token in special.items() if token is not None},
        rules=rules_of(values, ends, vocabulary),
        given={key: value for key, value in values.items() if key in (there | brought) - set(refused)},
        unknown={
            key: content[key]
            for key in sorted(others)
            if key in given and content[key] not in (NOT_COMPUTED.get(key), [], {})
        }
        | {key: content[key] for key in refused},
        refused=refused,
    )


def rules_of(values: Mapping[str, Any], ends: list[int], vocabulary: int) -> Rules:
    """Return the rules in these values; ids outside the vocabulary are never generated anyway."""
    words = [tuple(row) for row in values["bad_words_ids"] if max(row) < vocabulary]
    never = [*(word[0] for word in words if len(word) == 1 and word[0] not in ends), *values["suppress_tokens"]]
    return Rules(
        never=tuple(token for token in never if 0 <= token < vocabulary),
        never_first=tuple(token for token in values["begin_suppress_tokens"] if 0 <= token < vocabulary),
        never_rows=tuple(word for word in words if len(word) > 1),
        first=values["forced_bos_token_id"][0] if values["forced_bos_token_id"] else None,
        last=tuple(values["forced_eos_token_id"]),
        repetition=values["repetition_penalty"],
        renormalised=values["renormalize_logits"],
    )


def early_stopping(config: Config) -> EarlyStopping:
    given = config.content.get("early_stopping")
    if given is None or given is False:
        return False
    if given is True or given == "never":
        return given  # type: ignore[no-any-return]
    raise LabError(f'{config.file} has early_stopping = {format_value(given)}; allowed: true, false, "never"')


def ids(config: Config, key: str, low: int | None = None, below: int | None = None) -> list[int]:
    """Return one id or several as a list; empty for null. Without bounds any number may stand for no token."""
    given = config.content.get(key)
    tokens = [] if given is None else given if isinstance(given, list) else [given]
    if not all(type(token) is int and (low is None or low <= token < (below or math.inf)) for token in tokens):
        allowed = "ids" if low is None else f"ids from {low} on" if below is None else f"ids from {low} to {below - 1}"
        raise LabError(f"{config.file} has {key} = {format_value(given)}; allowed: {allowed}")
    return tokens


def rows(config: Config, key: str) -> list[list[int]]:
    """Return lists of ids."""
    given = config.content.get(key) or []
    if not isinstance(given, list) or not all(isinstance(row, list) and row for row in given):
        raise LabError(f"{config.file} has {key} = {format_value(given)}; allowed: rows of ids, such as [[5], [7, 3]]")
    return [ids(Config({key: row}, config.file), key, 0) for row in given]
