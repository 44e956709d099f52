import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'

/** The members of V8's profile format that are read here. */
const PROFILE = z.object({
  nodes: z.array(
    z.object({
      id: z.number(),
      callFrame: z.object({ functionName: z.string(), url: z.string(), lineNumber: z.number() }),
      children: z.array(z.number()).default([]),
    }),
  ),
  samples: z.array(z.number()),
  timeDeltas: z.array(z.number()),
})

type Frame = z.infer<typeof PROFILE>['nodes'][number]['callFrame']

/** A part of the time that was measured. */
export interface Share {
  readonly name: string
  readonly share: number
}

/** The time of one thread, without idle time. */
export interface ReadProfile {
  /** Self time by function, largest first. */
  readonly functions: readonly Share[]
  /** Time by stage of a call, in the order of a call. */
  readonly stages: readonly Share[]
}

const OUTERMOST = 'socket and HTTP'

/** The stages of a call, and the files and functions that belong to each; the first that matches a frame counts. */
const STAGES: readonly (readonly [stage: string, frames: RegExp])[] = [
  ['routing', /^src\/server\/http\/(app|router|host-guard)\.ts |^src\/server\/http\/exchange\.ts Exchange$/],
  ['body', /^src\/server\/http\/read-body\.ts /],
  ['codec', /^src\/protocols\//],
  [
    'identity',
    /^src\/(auth\/|kernel\/store\/store\.ts digest$|kernel\/base\/(ids|json|hash)\.ts |kernel\/call\/(look-up|identity)\.ts )/,
  ],
  ['limits', /^src\/stages\/limits\//],
  ['validation', /^src\/(schema\/|kernel\/call\/resolve\.ts (validateInput|read)$)/],
  ['call stages', /^src\/kernel\/(?!journal|store)|^src\/stages|^src\/server\/(telemetry|services)/],
  ['statements', /^src\/kernel\/store\/sqlite\/engine\.ts (answer|run|get|#statement)$/],
  ['commit', /^src\/kernel\/store\/sqlite\/(engine\.ts (begin|commit)$|checkpoint-worker)/],
  ['seal and link', /^src\/kernel\/store\/(key-ring\.ts |journal\.ts (insert|seal|linkOf)$)/],
  ['records', /^src\/(store|kernel\/(store|journal))\//],
  ['reply', /^src\/server\/http\/exchange\.ts /],
  ['tool', /^bench\/servers\//],
  ['garbage collection', /^ \(garbage collector\)$/],
]

/**
 * Reads the last `lastMs` of a `.cpuprofile`; the time before is start and warm-up. A sample belongs to the innermost of its frames that
 * has a stage, so the work of Node and SQLite counts for the stage that called them. All other samples count as HTTP.
 */
export function readProfile(json: unknown, lastMs: number): ReadProfile {
  const { nodes, samples, timeDeltas } = PROFILE.parse(json)
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]))
  const stages = new Map<number, string>()
  // Nodes are listed before their children.
  for (const { id, callFrame, children } of nodes) {
    const stage = stageOf(callFrame) ?? stages.get(id) ?? OUTERMOST
    for (const each of [id, ...children]) stages.set(each, stage)
  }
  const byFunction = new Map<string, number>()
  const byStage = new Map<string, number>()
  let leftMicroseconds = lastMs * 1_000
  for (let index = samples.length - 1; index >= 0 && leftMicroseconds > 0; index -= 1) {
    const id = samples[index] ?? 0
    const time = timeDeltas[index] ?? 0
    leftMicroseconds -= time
    const site = describe(frames.get(id))
    if (site === '(idle)') continue
    add(byFunction, site, time)
    add(byStage, stages.get(id) ?? OUTERMOST, time)
  }
  const order = [OUTERMOST, ...STAGES.map(([stage]) => stage)]
  return {
    functions: sharesOf(byFunction).toSorted((left, right) => right.share - left.share),
    stages: sharesOf(byStage).toSorted((left, right) => order.indexOf(left.name) - order.indexOf(right.name)),
  }
}

function stageOf(frame: Frame): string | undefined {
  const named = `${pathOf(frame)} ${frame.functionName}`
  return STAGES.find(([, frames]) => frames.test(named))?.[0]
}

function describe(frame: Frame | undefined): string {
  if (frame === undefined) return '(unknown)'
  const name = frame.functionName === '' ? '(anonymous)' : frame.functionName
  return frame.url === '' ? name : `${name}  ${pathOf(frame)}:${frame.lineNumber + 1}`
}

function pathOf({ url }: Frame): string {
  if (!url.startsWith('file:')) return url
  const root = fileURLToPath(new URL('..', import.meta.url))
  return relative(root, fileURLToPath(url)).replace(/^.*node_modules\//, '')
}

function add(times: Map<string, number>, name: string, time: number): void {
  times.set(name, (times.get(name) ?? 0) + time)
}

function sharesOf(times: ReadonlyMap<string, number>): readonly Share[] {
  const total = [...times.values()].reduce((sum, time) => sum + time, 0)
  return [...times].map(([name, time]) => ({ name, share: time / total }))
}
