"""Hooks of a run; this one changes nothing."""


def on_start(run):
    """Before the model is built."""


def on_model(model, run):
    """After the model was built."""
    return model


def on_batch(batch, run):
    """Before each forward pass."""
    return batch


def on_loss(loss, run):
    """After each forward pass."""
    return loss


def on_step(run):
    """After each optimizer step."""


def on_save(path, run):
    """After a checkpoint was written."""


def on_end(run):
    """After the last step."""
