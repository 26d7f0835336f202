//! The model, and when its states are saved.

use serde::{Deserialize, Serialize};

use crate::{words::words, workload::ElementType};

/// The model, whose states checkpoints hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSpec {
    /// Its name, in folders and reports.
    pub name: String,
    /// The transformer whose parameters are counted; a model of [`ModelSpec::size_bytes`] where there is none.
    pub transformer: Option<TransformerSpec>,
    /// Bytes of a model that is no transformer.
    pub size_bytes: u64,
    /// The type of parameters.
    pub model_datatype: ElementType,
    /// The type of the optimizer's states.
    pub optimizer_datatype: ElementType,
    /// How the model is spread over ranks.
    pub parallelism: Parallelism,
    /// Elements of each tensor of a layer, where they are given one by one.
    pub layer_parameters: Vec<u64>,
    /// Elements of each tensor of the optimizer, where they are given one by one.
    pub optimization_groups: Vec<u64>,
}

impl Default for ModelSpec {
    fn default() -> Self {
        Self {
            name: "default".into(),
            transformer: None,
            size_bytes: 10_240,
            model_datatype: ElementType::Float16,
            optimizer_datatype: ElementType::Float32,
            parallelism: Parallelism::default(),
            layer_parameters: Vec::new(),
            optimization_groups: Vec::new(),
        }
    }
}

/// The shape of a transformer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TransformerSpec {
    /// Blocks.
    pub num_layers: u64,
    /// Words.
    pub vocab_size: u64,
    /// Elements of a hidden state.
    pub hidden_size: u64,
    /// Elements inside the feed-forward network.
    pub ffn_hidden_size: u64,
    /// Attention heads.
    pub num_attention_heads: u64,
    /// Heads of keys and values.
    pub num_kv_heads: u64,
}

impl Default for TransformerSpec {
    fn default() -> Self {
        Self {
            num_layers: 1,
            vocab_size: 32_000,
            hidden_size: 2048,
            ffn_hidden_size: 8192,
            num_attention_heads: 32,
            num_kv_heads: 8,
        }
    }
}

/// How a model is spread over ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Parallelism {
    /// Ranks that share each matrix.
    pub tensor: u32,
    /// Ranks that share the layers.
    pub pipeline: u32,
    /// Replicas of the whole training; computed from the ranks where there is none.
    pub data: Option<u32>,
    /// The stage of DeepSpeed's ZeRO, 0 to 3.
    pub zero_stage: u8,
}

impl Default for Parallelism {
    fn default() -> Self {
        Self { tensor: 1, pipeline: 1, data: None, zero_stage: 0 }
    }
}

words! {
    /// Which ranks write a checkpoint.
    CheckpointMode as "checkpoint mode" {
        /// All ranks of the job are all ranks of the model.
        Default = "default",
        /// The ranks of the job are the first ones of the model, and write their shards alone.
        Subset = "subset",
    }
}

/// When and how checkpoints are saved and loaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckpointSpec {
    /// The folder of all checkpoints.
    pub folder: String,
    /// The first epoch, from 1, after which one is saved.
    pub after_epoch: u32,
    /// Epochs from one to the next.
    pub epochs_between: u32,
    /// Steps from one to the next, instead of the rule for epochs.
    pub steps_between: Option<u64>,
    /// Which ranks write.
    pub mode: CheckpointMode,
    /// Whether files are synced to storage.
    pub fsync: bool,
    /// Whether a rank loads what another wrote, so that no cache of its node helps.
    pub recovery_rank_shift: bool,
    /// Whether ranks wait for each other after each checkpoint.
    pub rank_sync: bool,
    /// Seconds before each checkpoint of a run without training.
    pub time_between_s: f64,
    /// Checkpoints that a run without training saves.
    pub writes: u32,
    /// Checkpoints that a run without training loads.
    pub reads: u32,
    /// Whether tensors hold noise, not zeros.
    pub randomize_tensor: bool,
    /// Whether checkpoints are written through staged writes.
    pub staged: bool,
}

impl Default for CheckpointSpec {
    fn default() -> Self {
        Self {
            folder: "./checkpoints/".into(),
            after_epoch: 1,
            epochs_between: 1,
            steps_between: None,
            mode: CheckpointMode::Default,
            fsync: false,
            recovery_rank_shift: false,
            rank_sync: false,
            time_between_s: 0.0,
            writes: 0,
            reads: 0,
            randomize_tensor: true,
            staged: false,
        }
    }
}
