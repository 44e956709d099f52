import type { Elicitation, ElicitationAnswer } from '#kernel/base/elicitation'
import { copyJson, type JsonValue } from '#kernel/base/json'
import type { Logger, WriteLine } from '#kernel/base/logger'
import { DEFAULT_TENANT, type Principal } from '#kernel/base/principal'
import { Secret } from '#kernel/base/secret'
import { explainThrown } from '#kernel/base/thrown'
import type { CallError, Progress } from '#kernel/call/call'
import {
  type DefinedTool,
  isDefinedTool,
  type SchemaLike,
  type StepInput,
  type StepResult,
  type TypedTool,
} from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import { callRequest, openTestGateway } from './test-gateway.ts'

/** What a tool under test gets from outside. Everything has a stand-in, so that a test needs no network and no server. */
export interface TestToolOptions {
  /** What `ctx.fetch` does. Default: it fails and says how to give one. `globalThis.fetch` uses the network. */
  readonly fetch?: typeof fetch
  /** Values for `ctx.secret(id)`, by the ids that the tool requires. */
  readonly secrets?: Readonly<Record<string, string>>
  /** Values for `ctx.token(id)`, by the ids that the tool requires. */
  readonly tokens?: Readonly<Record<string, string>>
  /** Answers `ctx.elicit`: one answer for every question, or a function. Default: every question is declined. */
  readonly elicit?:
    | ElicitationAnswer
    | ((question: Elicitation) => ElicitationAnswer | Promise<ElicitationAnswer>)
  /** Who calls. Default: a caller who has every scope. */
  readonly principal?: Principal
  /** Whom the call is for; the tool gets it as `ctx.userId`. */
  readonly userId?: string
  /** Other tools that a workflow calls by name. Those in its `uses` that were made by `tool()` need not be named. */
  readonly tools?: readonly DefinedTool[]
  /** Whether every parameter needs a description, as `authoring.describeParameters` of the config says. Default true. */
  readonly describeParameters?: boolean
}

/** One line that the tool wrote with `ctx.log`. */
export interface TestLogLine {
  readonly level: keyof Logger
  readonly message: string | undefined
  readonly fields: object
}

interface Observed {
  readonly logs: readonly TestLogLine[]
  readonly progress: readonly Progress[]
  /** What the tool asked with `ctx.elicit`. */
  readonly questions: readonly Elicitation[]
}

/** How the call ended: what a caller would get, and what the tool did on the way. */
export type TestToolResult<Value = JsonValue> =
  | ({ readonly ok: true; readonly value: Value } & Observed)
  | ({
      readonly ok: false
      readonly error: CallError
      /** What the tool threw, when that was no `ToolError`. */
      readonly thrown?: unknown
    } & Observed)

/**
 * Runs a tool as the server would: definition, input and output are checked, and the tool gets a context. Throws a
 * `DefinitionError` when the definition is not sound; everything else is a result. Approval is taken as given.
 */
export async function testTool<const I extends SchemaLike, const O extends SchemaLike | null>(
  tool: TypedTool<I, O>,
  input: StepInput<I>,
  options: TestToolOptions = {},
): Promise<TestToolResult<StepResult<O>>> {
  const logs: TestLogLine[] = []
  const progress: Progress[] = []
  const questions: Elicitation[] = []
  let thrown: { readonly value: unknown } | undefined
  const { describeParameters = true } = options
  const definitions = withSteps([tool, ...(options.tools ?? [])]).map(withoutApproval)
  const tools = requireTools(definitions, { describeParameters })
  const [tested] = tools
  if (tested === undefined) throw new TypeError('testTool() needs what tool() or workflow() gave.')
  const gateway = openTestGateway(tools, {
    log: recorder(logs),
    fetch: options.fetch ?? noFetch,
    explainThrown(value) {
      thrown = { value }
      return explainThrown(value)
    },
  })
  try {
    const { outcome } = await gateway.call(options.principal ?? CALLER, {
      ...callRequest(tested.id),
      input: jsonOf(input),
      userId: options.userId,
      tokens: secretsOf(options.tokens),
      secrets: secretsOf(options.secrets),
      onProgress: (step) => progress.push(step),
      onElicit: async (question) => {
        questions.push(question)
        const { elicit = { action: 'decline' } } = options
        return typeof elicit === 'function' ? await elicit(question) : elicit
      },
    })
    const observed = { logs, progress, questions }
    if (outcome.ok) return { ok: true, value: JSON.parse(outcome.valueJson), ...observed }
    const cause = thrown === undefined ? {} : { thrown: thrown.value }
    return { ok: false, error: outcome.error, ...cause, ...observed }
  } finally {
    await gateway.drain(0)
    await gateway.store.close()
  }
}

const CALLER: Principal = { id: 'key:test', tenant: DEFAULT_TENANT, scopes: ['*'] }

/** The tools themselves and, for workflows, those of their steps that are written out. */
function withSteps(tools: readonly DefinedTool[]): readonly DefinedTool[] {
  const found = new Set(tools)
  for (const each of found) {
    const uses: readonly unknown[] = 'uses' in each && Array.isArray(each.uses) ? each.uses : []
    for (const used of uses) if (isDefinedTool(used)) found.add(used)
  }
  return [...found]
}

/** Nobody is there to ask: the tests of a tool are about what it does once it may. */
function withoutApproval(tool: DefinedTool): object {
  const policy = 'policy' in tool && typeof tool.policy === 'object' ? tool.policy : null
  const asks = policy !== null && 'approval' in policy && ASKING.has(policy.approval)
  return asks ? { ...tool, policy: { ...policy, approval: 'never' } } : tool
}

const ASKING: ReadonlySet<unknown> = new Set(['always', 'conditional'])

function recorder(lines: TestLogLine[]): Logger {
  const write =
    (level: keyof Logger): WriteLine =>
    (said: object | string, message?: string) => {
      if (typeof said === 'string') lines.push({ level, message: said, fields: {} })
      else lines.push({ level, message, fields: said })
    }
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}

const noFetch: typeof fetch = async () => {
  throw new Error(
    'A tool under test reaches no network. Give testTool() a stand-in: { fetch: async (url) => … }.',
  )
}

/** Inputs arrive as JSON, so what JSON cannot carry never reaches a tool. */
function jsonOf(input: unknown): JsonValue {
  const copied = copyJson(input)
  if (copied.ok) return copied.value
  throw new TypeError(`The input${copied.pointer} cannot be sent: ${copied.problem}`)
}

function secretsOf(values: Readonly<Record<string, string>> = {}): ReadonlyMap<string, Secret> {
  return new Map(Object.entries(values).map(([id, value]) => [id, new Secret(value)]))
}
