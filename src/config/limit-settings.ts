import type { CallLimit, LimitSettings, TokenRate, ToolLimit } from '#core/limits/settings'
import { didYouMean } from '#core/nearest-name'
import type { Tool } from '#core/tool'
import { ConfigError, type ConfigProblem } from './config-error.ts'
import type { ParsedConfig } from './config-schema.ts'
import { isImported } from './is-imported.ts'

type WrittenLimits = ParsedConfig['limits']
type WrittenLimit = WrittenLimits['perPrincipal']
type WrittenToolLimit = WrittenLimits['perTool']

const MINUTE_MS = 60_000

/** Limits with every default filled in: an entry of its own leaves the rest as the general one says. */
export function toLimitSettings({
  perPrincipal,
  byPrincipal,
  perTool,
  byTool,
  total,
  waiting,
}: WrittenLimits): LimitSettings {
  const { longestSeconds, ...places } = waiting
  const ofPrincipal = toLimit(perPrincipal)
  const ofTool = toToolLimit(perTool)
  return {
    perPrincipal: ofPrincipal,
    byPrincipal: new Map(Object.entries(byPrincipal).map(([id, limit]) => [id, toLimit(limit, ofPrincipal)])),
    perTool: ofTool,
    byTool: new Map(Object.entries(byTool).map(([base, limit]) => [base, toToolLimit(limit, ofTool)])),
    total: { ...total, rate: toRate(total) },
    waiting: { ...places, longestMs: longestSeconds * 1_000 },
  }
}

function toToolLimit(written: WrittenToolLimit, general?: ToolLimit): ToolLimit {
  return {
    ...toLimit(written, general),
    perPrincipal: toLimit(written.perPrincipal, general?.perPrincipal),
  }
}

function toLimit(written: WrittenLimit, general?: CallLimit): CallLimit {
  return {
    rate: toRate(written) ?? general?.rate,
    concurrent: written.concurrent ?? general?.concurrent,
  }
}

function toRate({
  callsPerMinute,
  burst,
}: Pick<WrittenLimit, 'callsPerMinute' | 'burst'>): TokenRate | undefined {
  if (callsPerMinute === undefined) return undefined
  return { perMs: callsPerMinute / MINUTE_MS, burst: burst ?? Math.max(1, Math.floor(callsPerMinute / 10)) }
}

/** What only the tools can tell: a limit of a tool that is not there protects nothing, nor does a budget that no call fits in. */
export function checkLimits(
  { limits, budgets, sources }: Pick<ParsedConfig, 'limits' | 'budgets' | 'sources'>,
  tools: readonly Tool[],
  file: string,
): void {
  const known = namesWithoutVersion(tools)
  const names = [...known.keys()]
  const problems = [
    ...Object.keys(limits.byTool)
      .filter(
        (name) => name.includes('@') || (!known.has(name) && !isImported(name, Object.entries(sources))),
      )
      .map((name) => [
        `limits.byTool.${name}`,
        `there is no such tool. Write a name without a version, such as "Mail.Send".${didYouMean(name, names)}`,
      ]),
    ...Object.keys(limits.byTool).flatMap((name, place, all) => {
      const other = all.slice(0, place).find((earlier) => isSameTool(known, earlier, name))
      if (other === undefined) return []
      return [
        [`limits.byTool.${name}`, `is the tool of limits.byTool.${other} by another name. Write it once.`],
      ]
    }),
    ...budgets.flatMap(({ limit }, index) => {
      const slow = tools.find(({ policy }) => policy.timeoutMs > limit.milliseconds)
      if (slow === undefined) return []
      return [
        [
          `budgets[${index}].seconds`,
          `is less than the timeoutMs of ${slow.id} (${slow.policy.timeoutMs}), which is set aside while it runs: no call of it would ever run.`,
        ],
      ]
    }),
  ].map(([where = '', message = '']): ConfigProblem => ({ severity: 'error', file, where, message }))
  if (problems.length > 0) throw new ConfigError(problems)
}

/** Every name of every tool, with the base name that it stands for. */
function namesWithoutVersion(tools: readonly Tool[]): ReadonlyMap<string, string> {
  return new Map(
    tools.flatMap(({ parts: { base }, name, catalogId }) =>
      [base, name, catalogId].map((text) => [text, base]),
    ),
  )
}

function isSameTool(known: ReadonlyMap<string, string>, left: string, right: string): boolean {
  return known.has(left) && known.get(left) === known.get(right)
}
