"""Writes metrics.json, which metrics.rs reads: scikit-learn 1.9.1 and NLTK 3.10.4."""

import json
import pathlib

import nltk.translate.bleu_score as bleu
import numpy as np
import sklearn.metrics as metrics

random = np.random.default_rng(5)
classes, rows = 5, 60
# Few distinct scores, so that some are equal; no row has two that are largest.
scores = random.integers(0, 12, (rows, classes)) / 4 + np.arange(classes) / 64
targets = random.integers(0, classes - 1, rows)  # The last class never occurs.
predicted = scores.argmax(1)
labels = list(range(classes))
out = {"scores": scores.tolist(), "targets": targets.tolist()}
out["accuracy"] = metrics.accuracy_score(targets, predicted)
out["confusion"] = metrics.confusion_matrix(targets, predicted, labels=labels).tolist()
for k in [1, 2, 5]:
    out[f"top_{k}_accuracy"] = metrics.top_k_accuracy_score(targets, scores, k=k, labels=labels)
for name in ["precision", "recall", "f1"]:
    score = getattr(metrics, f"{name}_score")
    for average in ["macro", "micro", "weighted", None]:
        value = score(targets, predicted, labels=labels, average=average, zero_division=0)
        out[f"{name} {average}"] = value if average else value.tolist()
out["perplexity"] = float(np.exp(metrics.log_loss(targets, np.exp(scores) / np.exp(scores).sum(1, keepdims=True), labels=labels)))
binary = random.integers(0, 2, rows)
single = random.integers(0, 9, rows) / 8 + binary / 4
out["binary"], out["single"] = binary.tolist(), single.tolist()
out["auc"] = metrics.roc_auc_score(binary, single)
numbers, wanted = random.normal(size=(rows, 3)), random.normal(size=(rows, 3))
out["numbers"], out["wanted"] = numbers.tolist(), wanted.tolist()
out["mae"] = metrics.mean_absolute_error(wanted, numbers)
out["mse"] = metrics.mean_squared_error(wanted, numbers)

vocabulary = "the a cat dog sat ran on under mat table quickly".split()
texts = []
for _ in range(8):
    reference = random.choice(vocabulary, random.integers(6, 14)).tolist()
    other = random.choice(vocabulary, random.integers(6, 14)).tolist()
    candidate = [w if random.random() < 0.8 else str(random.choice(vocabulary)) for w in reference]
    texts.append((candidate[: random.integers(5, len(candidate) + 1)], [reference, other]))
out["texts"] = texts
candidates, references = [it[0] for it in texts], [it[1] for it in texts]
for longest in [1, 2, 4]:
    weights = [1 / longest] * longest
    out[f"bleu {longest}"] = bleu.corpus_bleu(references, candidates, weights)
    smooth = bleu.SmoothingFunction().method2
    out[f"bleu {longest} smooth"] = bleu.corpus_bleu(references, candidates, weights, smoothing_function=smooth)

path = pathlib.Path(__file__).parent / "metrics.json"
path.write_text(json.dumps(out) + "\n")
