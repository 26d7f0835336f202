//! `forebay plan --tiers`: what each policy would read from the origin.

use forebay::{
    Error, ErrorKind, Result, Settings, TierForecast, TierPlan,
    config::{
        Amount, TierConfig,
        candidates::{Machine, ThisMachine},
    },
    process::ledger,
    tier::{BuiltinPolicy, ForecastTier, Policy},
};
use serde::Serialize;

use crate::{
    Context,
    args::{config::ConfigArgs, loader::LoaderArgs, set::Chosen},
    output::{self, color::TextRole, layout::aligned, show},
};

/// What is known of tiers that are thought of.
#[derive(Debug)]
pub(crate) struct Tiers {
    settings: Settings,
    plan: TierPlan,
    forecast: TierForecast,
    in_use: BuiltinPolicy,
}

impl Tiers {
    /// What three epochs would read with the tiers of `config`.
    pub(crate) fn of(
        context: &Context,
        config: &ConfigArgs,
        chosen: &Chosen,
        loader: &LoaderArgs,
    ) -> Result<Self> {
        let settings = config.load()?;
        let placement = &settings.config.placement;
        let tiers = settings.config.tiers.iter().map(tier).collect::<Result<Vec<_>>>()?;
        if tiers.is_empty() {
            let error = Error::new(ErrorKind::Invalid, "no tiers to plan with");
            return Err(error.hint("name some, such as --tier memory:4GiB, or a configuration that has some"));
        }
        let plan = TierPlan { tiers, block_len: placement.block, whole_file: placement.whole_file };
        let forecast = plan.forecast(&chosen.set, &loader.options(context))?;
        let in_use = placement.policy.builtin();
        Ok(Self { settings, plan, forecast, in_use })
    }

    /// The same under stable names.
    pub(crate) fn facts(&self) -> impl Serialize {
        let mut policies = serde_json::Map::new();
        for own in &self.forecast.policies {
            let read = |read: forebay::tier::Forecast| serde_json::json!({ "reads": read.reads, "bytes": read.bytes });
            let epochs: Vec<_> = own.epochs.iter().map(|epoch| read(*epoch)).collect();
            let facts = serde_json::json!({ "epochs": epochs, "sum": read(own.sum()) });
            policies.insert(own.policy.name().to_owned(), facts);
        }
        let configured = self.settings.config.tiers.iter().zip(&self.plan.tiers);
        let tiers: Vec<_> = configured
            .map(|(tier, plan)| serde_json::json!({ "tier": tier.to_string(), "quota_bytes": plan.quota }))
            .collect();
        serde_json::json!({
            "exact": self.forecast.exact,
            "block_bytes": self.plan.block_len,
            "tiers": tiers,
            "policy": self.in_use.name(),
            "policies": policies,
        })
    }

    /// The same for people.
    pub(crate) fn text(&self, context: &Context) -> Result<()> {
        let configured = self.settings.config.tiers.iter().zip(&self.plan.tiers);
        let named: Vec<_> = configured
            .map(|(tier, plan)| match tier {
                TierConfig::Memory { .. } | TierConfig::Peers { .. } => {
                    format!("{} {}", tier.kind(), show::size(plan.quota))
                }
                TierConfig::Disk(disk) => format!("disk {} {}", disk.path.display(), show::size(plan.quota)),
            })
            .collect();
        let block = show::size(self.plan.block_len);
        output::say(format!("\nread from the origin with tiers {}, in blocks of {block}", named.join(", ")))?;
        for (number, line) in aligned(&self.table()).iter().enumerate() {
            let role = match number {
                0 => TextRole::Dim,
                _ if line.contains(IN_USE) => TextRole::Name,
                _ => TextRole::Plain,
            };
            output::say(context.paint.paint(role, line.trim_end()))?;
        }
        Ok(())
    }

    fn table(&self) -> Vec<Vec<String>> {
        let about = if self.forecast.exact { "" } else { "~" };
        let head = ["policy", "", "reads 1", "bytes 1", "reads 2", "bytes 2", "reads 3", "bytes 3"];
        let sums = ["reads", "bytes"];
        let mut rows = vec![head.into_iter().chain(sums).map(str::to_owned).collect::<Vec<_>>()];
        for own in &self.forecast.policies {
            let mark = if own.policy == self.in_use { IN_USE } else { "" };
            let mut row = vec![own.policy.name().to_owned(), mark.to_owned()];
            for read in own.epochs.iter().copied().chain([own.sum()]) {
                row.push(format!("{about}{}", read.reads));
                row.push(format!("{about}{}", show::size(read.bytes)));
            }
            rows.push(row);
        }
        rows
    }
}

/// What stands beside the policy that a loader would use.
const IN_USE: &str = "in use";

/// The tier that is simulated for `config`.
fn tier(config: &TierConfig) -> Result<ForecastTier> {
    let evicts_sources = matches!(config, TierConfig::Disk(_));
    let quota = match (config, config.quota()) {
        // A plan may be made where the disk is not.
        (_, Amount::Bytes(bytes)) => bytes,
        (TierConfig::Memory { quota } | TierConfig::Peers { quota }, _) => quota.of(ledger().share()),
        (TierConfig::Disk(disk), _) => {
            let there =
                disk.path.ancestors().find_map(|folder| ThisMachine.capacity(folder)).ok_or_else(|| {
                    Error::new(ErrorKind::NotFound, "no such disk here")
                        .hint("give its quota in bytes, such as disk:/nvme:100GiB")
                        .at(disk.path.display())
                })?;
            disk.quota_bytes(there.disk_bytes, there.free_bytes)
        }
    };
    Ok(ForecastTier { quota, evicts_sources })
}
