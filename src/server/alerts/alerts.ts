/**
 * Watches the alert rules of the config and reports to webhooks when a condition begins and when it ends. `openServices` starts it.
 * The store keeps what has started, so a restart repeats nothing.
 * Invariant: one replica at a time checks shared figures. Only the process that saw a source fail ends the alert about it, as long as
 * that process lives: replicas may differ in what they can reach.
 */

import type { Settings } from '#config/settings'
import type { Clock } from '#kernel/base/clock'
import { shortHash } from '#kernel/base/hash'
import { canonicalJson, defined } from '#kernel/base/json'
import type { Logger } from '#kernel/base/logger'
import type { AlertCondition } from '#kernel/journal/notices'
import { renderBudget } from '#server/admin/usage'
import type { SourceView } from '#sources/kit/sources'
import type { Store } from '#store/collet-store'
import type { ActiveAlert } from '#store/rollups/alerts'

const CHECK_EVERY_MS = 10_000
const MINUTE_MS = 60_000
const MAX_BUDGETS = 10_000

type AlertRule = NonNullable<Settings['alerts']>[number]
type RuleOf<When> = Extract<AlertRule, { readonly when: When }>

interface AlertOptions {
  readonly store: Pick<Store, 'alerts' | 'rollups' | 'openBudgets' | 'takeTurn' | 'writer' | 'isWriterAlive'>
  readonly clock: Clock
  readonly log: Logger
  /** Read for each check, because a reload may change them. */
  rules(): readonly AlertRule[]
  budgets(): Settings['budgets']
  sources(): readonly SourceView[]
}

/** What a rule found about one tool, budget or source. */
interface Finding {
  readonly id: string
  readonly name: string
  readonly condition: AlertCondition
  /** `unclear`: an alert that has started continues, and no alert starts. */
  readonly state: 'on' | 'off' | 'unclear'
}

export function startAlerts(options: AlertOptions) {
  const { store, clock, log, rules } = options
  let isStopped = false
  let checking: Promise<void> | undefined

  const check = async (): Promise<void> => {
    const active = await store.alerts.active()
    // Most servers have no rules: they read one short table and nothing else.
    if (rules().length === 0 && active.length === 0) return
    const isOurTurn = await store.takeTurn('alerts', CHECK_EVERY_MS / 2)
    const nowMs = clock.nowMs()
    const found = [...(isOurTurn ? await findShared(options, nowMs) : []), ...findDown(options, nowMs)]
    await report(options, { active, found, isOurTurn }, nowMs)
  }
  /** A check that takes longer than the interval is not started a second time. */
  const checkOnce = (): Promise<void> => {
    if (isStopped) return Promise.resolve()
    checking ??= check()
      .catch((err: unknown) =>
        log.warn({ err }, 'alerts could not be checked; the next check is in ten seconds'),
      )
      .finally(() => {
        checking = undefined
      })
    return checking
  }
  const timer = setInterval(checkOnce, CHECK_EVERY_MS).unref()
  return {
    check: checkOnce,
    async close(): Promise<void> {
      isStopped = true
      clearInterval(timer)
      await checking
    },
  }
}

interface Round {
  readonly active: readonly ActiveAlert[]
  readonly found: readonly Finding[]
  readonly isOurTurn: boolean
}

async function report(
  { store, rules }: AlertOptions,
  { active, found, isOurTurn }: Round,
  nowMs: number,
): Promise<void> {
  const started = new Map(active.map((alert) => [alert.id, alert]))
  for (const { id, name, condition, state } of found)
    if (state === 'on' && !started.has(id)) await store.alerts.start({ id, name, condition }, nowMs)
  const byId = new Map(found.map((finding) => [finding.id, finding]))
  const known = new Set(rules().map(keyOf))
  for (const alert of active) {
    const finding = byId.get(alert.id)
    const { id, startedAtMs } = alert
    if (!known.has(ruleKeyIn(id))) {
      if (isOurTurn) await store.alerts.end({ ...alert, id, startedAtMs, why: 'removed' }, nowMs)
    } else if (await mayEnd(store, alert, isOurTurn)) {
      // A budget whose window is over, or a source that was removed, is not found any more.
      const condition = finding?.condition ?? alert.condition
      if (finding === undefined || finding.state === 'off')
        await store.alerts.end({ name: alert.name, condition, id, startedAtMs, why: 'recovered' }, nowMs)
    }
  }
}

async function mayEnd(
  { writer, isWriterAlive }: Pick<Store, 'writer' | 'isWriterAlive'>,
  alert: ActiveAlert,
  isOurTurn: boolean,
): Promise<boolean> {
  if (alert.condition.kind !== 'source-down') return isOurTurn
  return alert.writer === writer || !(await isWriterAlive(alert.writer))
}

async function findShared(options: AlertOptions, nowMs: number): Promise<readonly Finding[]> {
  const found: Finding[] = []
  for (const rule of options.rules()) {
    if (rule.when === 'error-rate') found.push(await findErrors(options, rule, nowMs))
    if (rule.when === 'budget') found.push(...(await findBudgets(options, rule, nowMs)))
  }
  return found
}

async function findErrors(
  { store }: AlertOptions,
  rule: RuleOf<'error-rate'>,
  nowMs: number,
): Promise<Finding> {
  const { above, tool, tenant, window: windowMs, minCalls } = rule
  const sinceMs = nowMs - windowMs
  const range = {
    stepMs: MINUTE_MS,
    sinceMs: sinceMs - (sinceMs % MINUTE_MS),
    untilMs: nowMs + MINUTE_MS,
  } as const
  await store.rollups.flush()
  const { calls, errors } = await store.rollups.total({
    ...range,
    kind: 'tool',
    ...defined({ name: tool, tenant }),
  })
  const isAbove = calls > 0 && (errors / calls) * 100 > above
  return {
    id: idOf(rule, ''),
    name: rule.name ?? `error rate of ${tool ?? 'all calls'}${tenant === undefined ? '' : ` of ${tenant}`}`,
    condition: {
      kind: 'error-rate',
      windowMs,
      abovePercent: above,
      calls,
      errors,
      ...defined({ tool, tenant }),
    },
    // Too few calls are no reason to report, and none to say that it is over.
    state: !isAbove ? 'off' : calls >= minCalls ? 'on' : 'unclear',
  }
}

async function findBudgets(
  { store, budgets }: AlertOptions,
  rule: RuleOf<'budget'>,
  nowMs: number,
): Promise<readonly Finding[]> {
  const open = await store.openBudgets(nowMs, rule.tenant, MAX_BUDGETS)
  return open.flatMap((budget) => {
    const { tenant, principal, window_seconds: seconds, units } = renderBudget(budget, budgets())
    return units.flatMap(({ unit, used, limit }): Finding[] => {
      if (limit === null || used * 100 < limit * rule.above) return []
      const who = principal ?? `the tenant ${tenant}`
      return [
        {
          id: idOf(rule, JSON.stringify([tenant, principal, seconds, unit])),
          name: rule.name ?? `budget of ${who}`,
          condition: {
            ...{ kind: 'budget', tenant, unit, used, limit, abovePercent: rule.above },
            ...defined({ principal: principal ?? undefined }),
          },
          state: 'on',
        },
      ]
    })
  })
}

function findDown({ rules, sources }: AlertOptions, nowMs: number): readonly Finding[] {
  return rules().flatMap((rule) => {
    if (rule.when !== 'source-down') return []
    return sources()
      .filter(({ key }) => rule.source === undefined || rule.source === key)
      .map(({ key, state, sinceMs }): Finding => {
        const isDown = state === 'down'
        return {
          id: idOf(rule, key),
          name: rule.name ?? `source ${key}`,
          condition: { kind: 'source-down', source: key, sinceMs },
          // After a restart a source is starting, and its time of failure is not known.
          state:
            isDown && nowMs - sinceMs >= rule.after
              ? 'on'
              : isDown || state === 'starting'
                ? 'unclear'
                : 'off',
        }
      })
  })
}

/** Identifies a rule by everything but its name. A rule with another threshold is another rule. */
function keyOf({ name: _name, ...rule }: AlertRule): string {
  return shortHash(canonicalJson(defined(rule)))
}

function idOf(rule: AlertRule, subject: string): string {
  return `${keyOf(rule)} ${subject}`
}

function ruleKeyIn(id: string): string {
  return id.slice(0, id.indexOf(' '))
}
