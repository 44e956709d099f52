import { canonicalJson, type JsonObject, type JsonValue } from '#kernel/base/json'
import { EventLoopYielder } from '#kernel/base/long-work'
import type { ChangeClass, PinChanged } from '#kernel/journal/events'
import type { PolicyDefinition } from '#kernel/tool/tool'
import type {
  AcceptedDefinition,
  PinnedSource,
  PinRecord,
  PinWrite,
  StoredDefinition,
  WaitingChange,
} from '#store/imports'
import { definitionDiff, pinHash } from './definition-diff.ts'
import { FIRST_VERSION, hashOfWaiting, servedHash, toolNameOf, worstClass } from './pin-view.ts'
import { assignLocalNames } from './project.ts'
import type { Discovery, OfferedTool, Source, ToolHints } from './source.ts'
import { createTextReader, type Suspicion, suspicionsOf, type TextReader } from './suspicions.ts'

/**
 * Decides how a discovery changes the pins of its source. `Pins` stores the result.
 * Invariant: once a source has been seen, a discovery changes its served tools only by withdrawn hints and by the operator's current
 * policy.
 */

const MAX_NAME_LENGTH = 512
const MAX_DEPTH = 128
const MAX_TOOLS = 20_000
const MAX_VALUES = 200_000

/**
 * Returns the tools of a discovery that can be pinned, with unique names and small enough for a person to review; and the tools
 * that are left out, each with the reason.
 */
export async function sanitizeDiscovered({ tools }: Pick<Discovery, 'tools'>) {
  const yielder = new EventLoopYielder()
  const kept = new Map<string, OfferedTool>()
  const leftOut: { nativeName: string; problem: string }[] = []
  for (const tool of tools) {
    if (yielder.isDue) await yielder.yieldNow()
    const problem = problemOf(tool, kept)
    if (problem === undefined) kept.set(tool.nativeName, tool)
    else leftOut.push({ nativeName: tool.nativeName.slice(0, MAX_NAME_LENGTH), problem })
  }
  return { tools: [...kept.values()], leftOut }
}

function problemOf(tool: OfferedTool, kept: ReadonlyMap<string, OfferedTool>): string | undefined {
  const { nativeName } = tool
  if (nativeName === '' || nativeName.length > MAX_NAME_LENGTH || !nativeName.isWellFormed()) {
    return `the upstream offers a tool whose name does not have 1 to ${MAX_NAME_LENGTH} valid characters; it is left out`
  }
  if (nativeName.includes('\0')) return 'the upstream offers a tool with NUL in its name; it is left out'
  if (kept.size >= MAX_TOOLS) return `the upstream offers more than ${MAX_TOOLS} tools; one is left out`
  if (kept.has(nativeName)) return 'the upstream offers two tools with this name; the second is left out'
  const { inputSchema, outputSchema, binding, requirements } = tool
  return isTooLarge([inputSchema, outputSchema, binding, requirements])
    ? `the upstream offers a definition with more than ${MAX_VALUES} values or ${MAX_DEPTH} levels; it is left out`
    : undefined
}

function isTooLarge(value: unknown): boolean {
  let left = MAX_VALUES
  const walk = (inner: unknown, depth: number): boolean => {
    left -= 1
    if (left < 0 || depth > MAX_DEPTH) return true
    if (typeof inner !== 'object' || inner === null) return false
    return Object.values(inner).some((member) => walk(member, depth + 1))
  }
  return walk(value, 0)
}

interface Observation {
  readonly source: Pick<Source, 'policyFor' | 'wants'>
  readonly identity: JsonObject
  readonly tools: readonly OfferedTool[]
  readonly atMs: number
}

/** The first time a source is seen, every tool that is not suspicious is accepted. Returns `undefined` if nothing changes. */
export async function classifyDiscovery(
  known: PinnedSource,
  observation: Observation,
): Promise<PinWrite | undefined> {
  const rows = new Map(known.pins.map((pin) => [pin.nativeName, pin]))
  const offered = new Map(observation.tools.map((tool) => [tool.nativeName, tool]))
  const assigned = new Map(known.pins.map((pin) => [pin.nativeName, pin.local]))
  const names = assignLocalNames([...offered.keys()], assigned)
  const gone = known.pins.filter((pin) => !offered.has(pin.nativeName))
  const findRenamed = createRenameFinder(gone.filter((pin) => pin.isServed))
  const isFirst = known.revision <= 0
  // A source counts as seen once it has offered a tool.
  if (isFirst && offered.size === 0) return undefined
  const next: PinRecord[] = []
  const read = createTextReader()
  const yielder = new EventLoopYielder()
  // Reading the tools already took part of this turn.
  await yielder.yieldNow()
  for (const [nativeName, tool] of offered) {
    if (yielder.isDue) await yielder.yieldNow()
    const { identity } = observation
    const definition = { hash: pinHash(identity, tool), offered: tool, identity }
    const before = rows.get(nativeName) ?? {
      nativeName,
      local: names.get(nativeName) ?? nativeName,
      accepted: undefined,
      isServed: false,
      waiting: undefined,
    }
    next.push(classifyOffered(before, definition, { observation, findRenamed, isFirst, read }))
  }
  for (const row of gone) next.push(classifyGone(row, observation))
  const changed = next.filter((pin) => pin !== rows.get(pin.nativeName))
  // An interrupted first discovery is completed even if no tool has changed.
  if (changed.length === 0 && known.revision >= 0) return undefined
  await yielder.yieldNow()
  const { source, revision } = known
  let changesServed = false
  const count = changed.filter((pin) => pin.isServed).length
  // A first discovery has one event for all tools, because there may be thousands.
  const events: PinChanged[] = isFirst
    ? [{ type: 'pin.first_seen', at: observation.atMs, source, count }]
    : []
  for (const pin of changed) {
    if (yielder.isDue) await yielder.yieldNow()
    const before = rows.get(pin.nativeName)
    changesServed ||= servedHash(pin) !== servedHash(before)
    events.push(...eventOf(pin, before, source, observation.atMs))
  }
  return { source, seen: revision, pins: changed, changesServed, events }
}

interface Situation {
  readonly observation: Observation
  readonly findRenamed: ReturnType<typeof createRenameFinder>
  readonly isFirst: boolean
  readonly read: TextReader
}

function classifyOffered(known: PinRecord, definition: StoredDefinition, situation: Situation): PinRecord {
  const { observation, isFirst } = situation
  const row = withHints(known, definition)
  const { accepted, isServed } = row
  if (isServed && accepted?.hash === definition.hash) {
    return withWaiting(withPolicy(row, definition.offered.policy), undefined)
  }
  const current = withPolicy(row, policyNow(row, observation))
  if (row.waiting?.definition?.hash === definition.hash) return current
  const suspicions = suspicionsOf(definition.offered, situation.read)
  if (isFirst && suspicions.length === 0) {
    const first = { ...definition, version: FIRST_VERSION, atMs: observation.atMs, by: 'first sight' }
    return { ...row, accepted: first, isServed: true, waiting: undefined }
  }
  const waiting =
    isServed && accepted !== undefined
      ? changeOf(accepted, definition, observation.atMs)
      : additionOf(definition, suspicions, situation)
  return withWaiting(current, waiting)
}

/**
 * Updates the accepted hints without a decision if the operator's trust has changed or the upstream has withdrawn a
 * hint. Newly trusted hints apply only to exactly the accepted definition.
 */
function withHints(row: PinRecord, { hash, offered: { hints } }: StoredDefinition): PinRecord {
  const { accepted } = row
  if (accepted === undefined || accepted.hash === hash) return row
  const { hints: before, ...rest } = accepted.offered
  if (before === undefined && hints === undefined) return row
  const kept = before === undefined || hints === undefined ? hints : inBoth(before, hints)
  const offered = kept === undefined ? rest : { ...rest, hints: kept }
  const next = pinHash(accepted.identity, offered)
  if (next === accepted.hash || (before === undefined && next !== hash)) return row
  return { ...row, accepted: { ...accepted, offered, hash: next } }
}

function inBoth(left: ToolHints, right: ToolHints): ToolHints {
  return {
    readOnly: left.readOnly && right.readOnly,
    idempotent: left.idempotent && right.idempotent,
    ...(left.additive && right.additive ? { additive: true } : {}),
    ...(left.closedWorld && right.closedWorld ? { closedWorld: true } : {}),
  }
}

function changeOf(
  accepted: AcceptedDefinition,
  definition: StoredDefinition,
  seenAtMs: number,
): WaitingChange {
  const differences = definitionDiff(accepted, definition)
  const reasons = differences.filter((found) => found.class === 'suspicious').map(reasonOf)
  const found = worstClass(differences.map((difference) => difference.class))
  return { kind: 'change', definition, class: found, reasons: [...new Set(reasons)], seenAtMs }
}

function additionOf(
  definition: StoredDefinition,
  suspicions: readonly Suspicion[],
  { observation, findRenamed }: Situation,
): WaitingChange {
  const before = findRenamed(definition)
  // A renamed tool is breaking, because callers must use the new name.
  const found: ChangeClass = before === undefined ? 'widening' : 'breaking'
  return {
    kind: 'addition',
    definition,
    class: suspicions.length > 0 ? 'suspicious' : found,
    reasons: suspicions.map(reasonOf),
    ...(before === undefined ? {} : { renamedFrom: before.nativeName }),
    seenAtMs: observation.atMs,
  }
}

function reasonOf({ where, says }: Suspicion): string {
  return `${where} ${says}`
}

function classifyGone(row: PinRecord, observation: Observation): PinRecord {
  if (!row.isServed) return withWaiting(row, undefined)
  const current = withPolicy(row, policyNow(row, observation))
  // A tool that the operator excluded is not a change in the upstream.
  if (row.accepted !== undefined && observation.source.wants?.(row.accepted.offered) === false)
    return withWaiting(current, undefined)
  if (row.waiting?.kind === 'removal') return current
  const removal = { kind: 'removal', definition: undefined, class: 'breaking' } as const
  const reasons = ['the upstream no longer offers it']
  return withWaiting(current, { ...removal, reasons, seenAtMs: observation.atMs })
}

/** The operator's policy for the accepted definition; `undefined` if the source cannot read the definition, which `project.ts` reports. */
function policyNow({ accepted }: PinRecord, { source }: Observation): PolicyDefinition | undefined {
  if (accepted === undefined) return undefined
  try {
    return source.policyFor?.(accepted.offered)
  } catch {
    return undefined
  }
}

function withPolicy(row: PinRecord, policy: PolicyDefinition | undefined): PinRecord {
  const { accepted } = row
  if (policy === undefined || accepted === undefined) return row
  if (policyText(policy) === policyText(accepted.offered.policy)) return row
  return { ...row, accepted: { ...accepted, offered: { ...accepted.offered, policy } } }
}

function policyText(policy: PolicyDefinition): string {
  return JSON.stringify(Object.entries(policy).sort(([left], [right]) => (left < right ? -1 : 1)))
}

function withWaiting(row: PinRecord, waiting: WaitingChange | undefined): PinRecord {
  return row.waiting === waiting ? row : { ...row, waiting }
}

function eventOf(
  pin: PinRecord,
  before: PinRecord | undefined,
  source: string,
  at: number,
): readonly PinChanged[] {
  const tool = toolNameOf(source, pin)
  const { waiting, accepted } = pin
  if (waiting !== undefined && waiting !== before?.waiting)
    return [{ type: 'pin.held', at, source, tool, hash: hashOfWaiting(waiting), class: waiting.class }]
  if (before?.waiting !== undefined && waiting === undefined) {
    return [{ type: 'pin.returned', at, source, tool, hash: accepted?.hash ?? 'removed' }]
  }
  return []
}

/**
 * Finds the removed tool that a new tool renames: it has the same schemas and the same text or target. Uses an index,
 * because an upstream may replace thousands of tools at once.
 */
function createRenameFinder(gone: readonly PinRecord[]) {
  let known: Map<string, PinRecord> | undefined
  return (definition: StoredDefinition): PinRecord | undefined => {
    known ??= new Map(
      gone.flatMap((pin) =>
        pin.accepted === undefined ? [] : renameKeys(pin.accepted).map((key) => [key, pin]),
      ),
    )
    const [byText = '', byTarget = ''] = renameKeys(definition)
    return known.get(byText) ?? known.get(byTarget)
  }
}

function renameKeys({ offered }: StoredDefinition): readonly string[] {
  const { inputSchema, outputSchema, description, binding } = offered
  const schemas: readonly JsonValue[] = [inputSchema, outputSchema]
  return [canonicalJson(['text', description, ...schemas]), canonicalJson(['target', binding, ...schemas])]
}
