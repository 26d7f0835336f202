//! The files of a checkpoint and the sizes of their tensors, as DLIO (after DeepSpeed and Megatron) lays them out.
//!
//! Ranks are numbered with tensor parallelism innermost: `tp = rank mod TP`, `pp = rank div TP mod PP`, `dp = rank div (TP PP)`.

use forebay_process::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::{
    order::RankPosition,
    workload::{CheckpointMode, ElementType, ModelSpec, Parallelism, TransformerSpec, Workload},
};

/// One file that a rank writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointFile {
    /// Its name within the folder of the checkpoint, with extension.
    pub name: String,
    /// Its tensors, in order.
    pub tensors: Vec<TensorSpec>,
}

impl CheckpointFile {
    /// Bytes of all tensors.
    pub fn byte_len(&self) -> u64 {
        self.tensors.iter().map(TensorSpec::byte_len).sum()
    }
}

/// One tensor of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorSpec {
    /// Its key in the state that is saved.
    pub key: String,
    /// Elements.
    pub len: u64,
    /// The type of an element.
    pub dtype: ElementType,
}

impl TensorSpec {
    /// Bytes.
    pub fn byte_len(&self) -> u64 {
        self.len * self.dtype.byte_len()
    }
}

/// The folder of the checkpoint of `epoch` and `step`, below the folder of all checkpoints.
pub fn folder(epoch: u32, step: u64) -> String {
    format!("global_epoch{epoch}_step{step}")
}

/// The files that one rank writes; none where others hold all of its states.
pub fn files(workload: &Workload, at: RankPosition) -> Result<Vec<CheckpointFile>> {
    let shards = ModelShards::new(workload, at)?;
    let mut files = Vec::new();
    match &workload.model.transformer {
        Some(transformer) => {
            files.extend(shards.model_files(transformer));
            files.extend(shards.optimizer_file(transformer));
        }
        None => files.extend(shards.plain_files(at.rank)),
    }
    Ok(files)
}

/// Bytes that all ranks write together.
pub fn total_bytes(workload: &Workload, ranks: u32) -> Result<u64> {
    let of_rank = |rank| {
        Ok(files(workload, RankPosition { rank, ranks })?.iter().map(CheckpointFile::byte_len).sum::<u64>())
    };
    (0..ranks).map(of_rank).sum()
}

/// Parameters of a transformer.
pub fn parameter_count(transformer: &TransformerSpec) -> u64 {
    let TransformerSpec { num_layers, vocab_size, hidden_size, .. } = *transformer;
    let of_block: u64 = block_lens(transformer).iter().map(|part| part.len).sum();
    2 * vocab_size * hidden_size + num_layers * of_block + hidden_size
}

/// A tensor of a block: matrices are divided among tensor-parallel ranks, vectors are not.
struct BlockPart {
    len: u64,
    is_matrix: bool,
}

fn block_lens(transformer: &TransformerSpec) -> [BlockPart; 6] {
    let (h, f) = (transformer.hidden_size, transformer.ffn_hidden_size);
    let kv = h / transformer.num_attention_heads.max(1) * transformer.num_kv_heads;
    let vector = |len| BlockPart { len, is_matrix: false };
    let matrix = |len| BlockPart { len, is_matrix: true };
    [vector(h), matrix(h * (h + 2 * kv)), matrix(h * h), vector(h), matrix(2 * h * f), matrix(h * f)]
}

/// A rank's place in the model: which layers and which part of each tensor it holds.
struct ModelShards<'a> {
    model: &'a ModelSpec,
    tensor: u64,
    pipeline: u64,
    data: u64,
    dp_rank: u64,
    pp_rank: u64,
    mp_rank: u64,
}

impl<'a> ModelShards<'a> {
    fn new(workload: &'a Workload, at: RankPosition) -> Result<Self> {
        let Parallelism { tensor, pipeline, data, zero_stage } = workload.model.parallelism;
        let (tensor, pipeline) = (u64::from(tensor.max(1)), u64::from(pipeline.max(1)));
        let (rank, ranks) = (u64::from(at.rank), u64::from(at.ranks));
        let of_model = tensor * pipeline;
        let data = match (workload.checkpoint.mode, data) {
            (CheckpointMode::Subset, Some(data)) => u64::from(data),
            (CheckpointMode::Subset, None) => {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    "checkpoint mode subset needs model.parallelism.data",
                ));
            }
            (CheckpointMode::Default, _) => ranks / of_model,
        };
        // A model that is no transformer is whole on each rank that holds it.
        let divides = ranks % of_model == 0 && ranks > 0;
        if workload.checkpoint.mode == CheckpointMode::Default
            && workload.model.transformer.is_some()
            && !divides
        {
            let what = format!(
                "{ranks} ranks are no multiple of {of_model} (tensor {tensor} x pipeline {pipeline})"
            );
            return Err(
                Error::new(ErrorKind::Invalid, what).hint("set checkpoint.mode to subset to write a part")
            );
        }
        if zero_stage == 3 && pipeline > 1 {
            return Err(Error::new(ErrorKind::Invalid, "ZeRO 3 goes with a pipeline of 1 only"));
        }
        let (mp_rank, dp_rank) = (rank % of_model, rank / of_model);
        Ok(Self {
            model: &workload.model,
            tensor,
            pipeline,
            data: data.max(1),
            dp_rank,
            pp_rank: rank / tensor % pipeline,
            mp_rank,
        })
    }

    fn zero_stage(&self) -> u8 {
        self.model.parallelism.zero_stage
    }

    /// Layers of this stage of the pipeline: 0 is the embedding, then the blocks, the head and the last norm.
    fn layers(&self, transformer: &TransformerSpec) -> Vec<u64> {
        let blocks = transformer.num_layers;
        let (each, more) = (blocks / self.pipeline, blocks % self.pipeline);
        let first = self.pp_rank * each + self.pp_rank.min(more) + 1;
        let count = each + u64::from(self.pp_rank < more);
        let mut layers: Vec<u64> = (first..first + count).collect();
        if self.pp_rank == 0 {
            layers.insert(0, 0);
        }
        if self.pp_rank == self.pipeline - 1 {
            layers.extend([blocks + 1, blocks + 2]);
        }
        layers
    }

    /// Elements of each tensor of `layer` on this rank.
    fn layer_lens(&self, transformer: &TransformerSpec, layer: u64) -> Vec<u64> {
        let blocks = transformer.num_layers;
        let shards = if self.zero_stage() == 3 { self.data } else { 1 };
        let whole = transformer.hidden_size * transformer.vocab_size;
        let lens = match layer {
            _ if layer == 0 || layer == blocks + 1 => vec![whole / self.tensor],
            _ if layer == blocks + 2 => vec![transformer.hidden_size],
            _ => {
                let of_part =
                    |part: &BlockPart| if part.is_matrix { part.len / self.tensor } else { part.len };
                block_lens(transformer).iter().map(of_part).collect()
            }
        };
        lens.into_iter().map(|len| len / shards).collect()
    }

    fn layer_tensors(&self, transformer: &TransformerSpec, layer: u64) -> Vec<TensorSpec> {
        let lens = self.layer_lens(transformer, layer).into_iter().enumerate();
        let tensors = lens.map(|(index, len)| TensorSpec {
            key: format!("{layer}.{index}"),
            len,
            dtype: self.model.model_datatype,
        });
        tensors.collect()
    }

    fn model_files(&self, transformer: &TransformerSpec) -> Vec<CheckpointFile> {
        let layers = self.layers(transformer);
        let all = || layers.iter().flat_map(|layer| self.layer_tensors(transformer, *layer)).collect();
        let named = |name: String, tensors| vec![CheckpointFile { name, tensors }];
        let (dp, mp) = (self.dp_rank, self.mp_rank);
        match self.zero_stage() {
            3 => named(format!("zero_pp_rank_{dp}_mp_rank_{mp}_model_states.pt"), all()),
            _ if dp > 0 => Vec::new(),
            0 => named(format!("zero_pp_rank_{dp}_mp_rank_{mp}_model_states.pt"), all()),
            _ if self.pipeline == 1 => named(format!("model_{mp}_model_states.pt"), all()),
            _ => {
                let of_layer = |layer: &u64| CheckpointFile {
                    name: format!("layer_{layer}-model_{mp}_model_states.pt"),
                    tensors: self.layer_tensors(transformer, *layer),
                };
                layers.iter().map(of_layer).collect()
            }
        }
    }

    fn optimizer_file(&self, transformer: &TransformerSpec) -> Option<CheckpointFile> {
        let (dp, mp) = (self.dp_rank, self.mp_rank);
        if self.zero_stage() == 0 && dp > 0 {
            return None;
        }
        let shards = if self.zero_stage() > 0 { self.data } else { 1 };
        let parameters = parameter_count(transformer) / (shards * self.tensor * self.pipeline);
        let lens = [parameters, 5 * transformer.hidden_size].repeat(3);
        let dtype = self.model.optimizer_datatype;
        let tensor = |(index, len): (usize, u64)| TensorSpec { key: index.to_string(), len, dtype };
        Some(CheckpointFile {
            name: format!("zero_pp_rank_{dp}_mp_rank_{mp}_optim_states.pt"),
            tensors: lens.into_iter().enumerate().map(tensor).collect(),
        })
    }

    /// A model of so many bytes, and what is given tensor by tensor.
    fn plain_files(&self, rank: u32) -> Vec<CheckpointFile> {
        if self.zero_stage() == 0 && self.dp_rank > 0 {
            return Vec::new();
        }
        let of_bytes = |key: String, len| TensorSpec { key, len, dtype: ElementType::Int8 };
        let numbered = |lens: &[u64]| {
            lens.iter().enumerate().map(|(at, len)| of_bytes(at.to_string(), *len)).collect::<Vec<_>>()
        };
        let mut files = vec![CheckpointFile {
            name: format!("model_states-{rank}.pt"),
            tensors: vec![of_bytes("a".into(), self.model.size_bytes)],
        }];
        if !self.model.optimization_groups.is_empty() {
            let groups = &self.model.optimization_groups;
            let pairs = groups
                .iter()
                .enumerate()
                .flat_map(|(at, len)| [of_bytes(format!("{at}.a"), *len), of_bytes(format!("{at}.b"), *len)]);
            let combined = of_bytes("combined".into(), groups.iter().sum());
            let name = format!("zero_pp_rank_{}_mp_rank_{}_optim_states.pt", self.dp_rank, self.mp_rank);
            files.push(CheckpointFile { name, tensors: pairs.chain([combined]).collect() });
        }
        if !self.model.layer_parameters.is_empty() {
            let name = format!("layer_0-model_{}_model_states.pt", self.mp_rank);
            files.push(CheckpointFile { name, tensors: numbered(&self.model.layer_parameters) });
        }
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> TransformerSpec {
        TransformerSpec {
            num_layers: 4,
            vocab_size: 32_000,
            hidden_size: 512,
            ffn_hidden_size: 2048,
            num_attention_heads: 32,
            num_kv_heads: 8,
        }
    }

    fn workload(tensor: u32, pipeline: u32, zero_stage: u8) -> Workload {
        let mut workload = Workload::default();
        workload.model.transformer = Some(small());
        workload.model.parallelism = Parallelism { tensor, pipeline, data: None, zero_stage };
        workload
    }

    fn sizes(workload: &Workload, rank: u32, ranks: u32) -> Vec<(String, u64)> {
        let files = files(workload, RankPosition { rank, ranks }).unwrap();
        files.into_iter().map(|file| (file.name.clone(), file.byte_len())).collect()
    }

    #[test]
    fn payloads_of_48_million_parameters_under_zero_3_are_dlios() {
        assert_eq!(parameter_count(&small()), 47_976_960);
        let workload = workload(1, 1, 3);
        for rank in 0..2 {
            let expected = [
                (format!("zero_pp_rank_{rank}_mp_rank_0_model_states.pt"), 47_976_960),
                (format!("zero_pp_rank_{rank}_mp_rank_0_optim_states.pt"), 287_892_480),
            ];
            assert_eq!(sizes(&workload, rank, 2), expected);
        }
        assert_eq!(total_bytes(&workload, 2).unwrap(), 2 * (47_976_960 + 287_892_480));
    }

    #[test]
    fn under_zero_0_the_first_replica_writes_all_and_under_1_layer_by_layer() {
        assert!(sizes(&workload(2, 1, 0), 2, 4).is_empty());
        assert_eq!(sizes(&workload(1, 1, 0), 0, 4)[0].1, 2 * 47_976_960);
        let names: Vec<String> = sizes(&workload(1, 2, 1), 1, 4).into_iter().map(|(name, _)| name).collect();
        let expected = [3, 4, 5, 6].map(|layer| format!("layer_{layer}-model_1_model_states.pt"));
        assert_eq!(names[..4], expected);
        assert_eq!(names[4], "zero_pp_rank_0_mp_rank_1_optim_states.pt");
        assert_eq!(
            sizes(&workload(1, 2, 1), 3, 4).len(),
            1,
            "the second replica writes optimizer states alone"
        );
    }

    #[test]
    fn every_parameter_is_in_one_file_whatever_the_parallelism() {
        for (tensor, pipeline, zero_stage, ranks) in
            [(1, 1, 0, 1), (1, 4, 1, 4), (1, 3, 2, 6), (1, 1, 3, 4), (1, 2, 0, 4)]
        {
            let workload = workload(tensor, pipeline, zero_stage);
            let all = (0..ranks).flat_map(|rank| files(&workload, RankPosition { rank, ranks }).unwrap());
            let states = all.filter(|file| file.name.contains("model_states"));
            let elements: u64 = states.flat_map(|file| file.tensors).map(|tensor| tensor.len).sum();
            assert_eq!(elements, 47_976_960, "TP {tensor} PP {pipeline} ZeRO {zero_stage}");
        }
    }

    #[test]
    fn ranks_that_do_not_divide_are_refused_unless_a_subset_is_meant() {
        let mut workload = workload(8, 1, 1);
        assert!(
            files(&workload, RankPosition { rank: 0, ranks: 4 }).unwrap_err().to_string().contains("subset")
        );
        workload.checkpoint.mode = CheckpointMode::Subset;
        workload.model.parallelism.data = Some(2);
        let optimizer = &files(&workload, RankPosition { rank: 0, ranks: 4 }).unwrap()[1];
        assert_eq!(optimizer.tensors[0].len, 47_976_960 / 16);
    }

    #[test]
    fn a_model_of_bytes_is_one_tensor_on_the_first_rank() {
        let mut workload = Workload::default();
        workload.model.size_bytes = 499_153_191;
        assert_eq!(sizes(&workload, 0, 2), [("model_states-0.pt".to_owned(), 499_153_191)]);
        assert!(sizes(&workload, 1, 2).is_empty());
    }
}
