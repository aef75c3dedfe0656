"""Makes qwen2/tokenizer.json with Hugging Face tokenizers: `python tokenizer.py [FOLDER]`.

A byte-level BPE for the 131 tokens of the models in this folder: three special ones, the bytes of TEXT and of printable ASCII, and
merges. Characters of two to four bytes are among them, some as one token, most as several, so that texts come in pieces of characters.
"""

import pathlib
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

TEXT = "the cat and the hat and the café: naïve Übermaß, 5 €, 漢字, 😀! the end. " * 4
SPECIAL = ["<pad>", "<s>", "</s>"]
SIZE = 131


def main(folder):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = [c for c in pre_tokenizers.ByteLevel.alphabet() if c.isascii()]
    trainer = trainers.BpeTrainer(vocab_size=SIZE, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    assert tokenizer.get_vocab_size() == SIZE
    assert tokenizer.decode(tokenizer.encode(TEXT).ids) == TEXT
    tokenizer.save(str(folder / "qwen2" / "tokenizer.json"))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent)
