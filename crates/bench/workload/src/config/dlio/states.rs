//! The sections `model` and `checkpoint`.

use forebay_process::Result;

use crate::{
    config::section::Section,
    workload::{TransformerSpec, Workload},
};

/// The size that DLIO 2 writes where a file says `model_size`, which it does not read.
const UNREAD_MODEL_BYTES: u64 = 10_240;

pub(super) fn model(
    mut section: Section<'_>,
    workload: &mut Workload,
    notes: &mut Vec<String>,
) -> Result<()> {
    let like_dlio = workload.like_dlio;
    let model = &mut workload.model;
    section.set(&["name"], &mut model.name)?;
    let mut kind = String::new();
    section.set(&["type", "model_type"], &mut kind)?;
    section.set(&["model_size_bytes"], &mut model.size_bytes)?;
    let mut size = model.size_bytes;
    if section.set(&["model_size"], &mut size)? {
        model.size_bytes = if like_dlio { UNREAD_MODEL_BYTES } else { size };
    }
    section.set(&["model_datatype"], &mut model.model_datatype)?;
    section.set(&["optimizer_datatype"], &mut model.optimizer_datatype)?;
    section.set(&["layer_parameters"], &mut model.layer_parameters)?;
    section.set(&["optimization_groups"], &mut model.optimization_groups)?;
    let mut num_layers = None;
    section.set(&["num_layers"], &mut num_layers)?;
    let mut parts = section.child(&["parallelism"])?;
    parts.set(&["tensor"], &mut model.parallelism.tensor)?;
    parts.set(&["pipeline"], &mut model.parallelism.pipeline)?;
    parts.set(&["data"], &mut model.parallelism.data)?;
    parts.set(&["zero_stage"], &mut model.parallelism.zero_stage)?;
    parts.finish()?;
    let nested = section.child(&["transformer"])?;
    transformer(nested, &kind, num_layers, workload)?;
    section.ignore(&["framework"], notes);
    section.finish()
}

/// A model is a transformer where its type says so, or where it has the shape of one.
fn transformer(
    mut section: Section<'_>,
    kind: &str,
    num_layers: Option<u64>,
    workload: &mut Workload,
) -> Result<()> {
    let is_one =
        kind == "transformer" || !section.entries().is_empty() || workload.model.transformer.is_some();
    let mut shape = workload.model.transformer.unwrap_or_default();
    shape.num_layers = num_layers.unwrap_or(shape.num_layers);
    section.set(&["vocab_size"], &mut shape.vocab_size)?;
    section.set(&["hidden_size"], &mut shape.hidden_size)?;
    section.set(&["ffn_hidden_size"], &mut shape.ffn_hidden_size)?;
    section.set(&["num_attention_heads"], &mut shape.num_attention_heads)?;
    section.set(&["num_kv_heads"], &mut shape.num_kv_heads)?;
    let TransformerSpec { num_attention_heads, .. } = shape;
    if num_attention_heads == 0 {
        return Err(section.error("num_attention_heads", "a transformer has attention heads"));
    }
    if is_one && !is_counted(&shape) {
        return Err(section.error("hidden_size", "there are no parameters, or more than can be counted"));
    }
    workload.model.transformer = is_one.then_some(shape);
    section.finish()
}

/// Whether a transformer has parameters, and their bytes can be counted.
fn is_counted(shape: &TransformerSpec) -> bool {
    let [layers, vocabulary, hidden, ffn, kv] =
        [shape.num_layers, shape.vocab_size, shape.hidden_size, shape.ffn_hidden_size, shape.num_kv_heads]
            .map(u128::from);
    let of_hidden = hidden.saturating_mul(2 + 2 * kv).saturating_add(3 * ffn).saturating_add(2);
    let of_blocks = layers.saturating_mul(hidden.saturating_mul(of_hidden));
    let all = of_blocks.saturating_add(hidden.saturating_mul(2 * vocabulary + 1));
    // Six tensors of up to eight bytes for each.
    hidden > 0 && all < 1 << 57
}

pub(super) fn checkpoint(
    mut section: Section<'_>,
    workload: &mut Workload,
    notes: &mut Vec<String>,
) -> Result<()> {
    let checkpoint = &mut workload.checkpoint;
    section.set(&["checkpoint_folder"], &mut checkpoint.folder)?;
    section.set(&["checkpoint_after_epoch"], &mut checkpoint.after_epoch)?;
    section.set(&["epochs_between_checkpoints"], &mut checkpoint.epochs_between)?;
    section.set(&["steps_between_checkpoints"], &mut checkpoint.steps_between)?;
    section.set(&["mode"], &mut checkpoint.mode)?;
    section.set(&["fsync"], &mut checkpoint.fsync)?;
    section.set(&["recovery_rank_shift"], &mut checkpoint.recovery_rank_shift)?;
    section.set(&["rank_sync"], &mut checkpoint.rank_sync)?;
    let mut seconds = checkpoint.time_between_s;
    section.set(&["time_between_checkpoints"], &mut seconds)?;
    checkpoint.time_between_s = seconds.max(0.0);
    count(&mut section, "num_checkpoints_write", &mut checkpoint.writes)?;
    count(&mut section, "num_checkpoints_read", &mut checkpoint.reads)?;
    section.set(&["randomize_tensor"], &mut checkpoint.randomize_tensor)?;
    section.set(&["staged"], &mut checkpoint.staged)?;
    // Older files have the model's size here.
    let model = &mut workload.model;
    section.set(&["model_size"], &mut model.size_bytes)?;
    section.set(&["optimization_groups"], &mut model.optimization_groups)?;
    section.set(&["layer_parameters"], &mut model.layer_parameters)?;
    section.set(&["model_datatype"], &mut model.model_datatype)?;
    section.set(&["optimizer_datatype"], &mut model.optimizer_datatype)?;
    section.set(&["tensor_parallelism"], &mut model.parallelism.tensor)?;
    section.set(&["pipeline_parallelism"], &mut model.parallelism.pipeline)?;
    section.ignore(&["num_layers", "type", "ksm", "checkpoint_mechanism_classname"], notes);
    section.finish()
}

/// Negative counts are none.
fn count(section: &mut Section<'_>, key: &'static str, field: &mut u32) -> Result<()> {
    let mut given = None;
    if section.set(&[key], &mut given)? {
        *field = given.unwrap_or(0);
    }
    Ok(())
}
