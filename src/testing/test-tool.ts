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

/**
 * `testTool` runs one tool in a unit test, without a server. Authors import it from `collet/testing`. Invariant: the
 * tool passes the same checks as on a server; network, secrets and answers come only from the test.
 */

/** The environment of the tool under test. Everything has a stand-in, so that a test needs no network and no server. */
export interface TestToolOptions {
  /** Implements `ctx.fetch`. Default: it fails with a hint. `globalThis.fetch` uses the network. */
  readonly fetch?: typeof fetch
  /** Values for `ctx.secret(id)`, by the ids that the tool requires. */
  readonly secrets?: Readonly<Record<string, string>>
  /** Values for `ctx.token(id)`, by the ids that the tool requires. */
  readonly tokens?: Readonly<Record<string, string>>
  /** Answers `ctx.elicit`: one answer for every question, or a function. Default: every question is declined. */
  readonly elicit?:
    | ElicitationAnswer
    | ((question: Elicitation) => ElicitationAnswer | Promise<ElicitationAnswer>)
  /** The caller. Default: a caller with every scope. */
  readonly principal?: Principal
  /** The user of the call, as in `ctx.userId`. */
  readonly userId?: string
  /** Other tools that a workflow calls by name. Those in its `uses` that were made by `tool()` need not be named. */
  readonly tools?: readonly DefinedTool[]
  /** Whether every parameter needs a description, as `authoring.describeParameters` in the config. Default true. */
  readonly describeParameters?: boolean
}

/** One line that the tool wrote with `ctx.log`. */
export interface TestLogLine {
  readonly level: keyof Logger
  readonly message: string | undefined
  readonly fields: object
}

interface Observations {
  readonly logs: readonly TestLogLine[]
  readonly progress: readonly Progress[]
  /** Questions that the tool asked with `ctx.elicit`. */
  readonly questions: readonly Elicitation[]
}

/** The result for the caller, and what the tool did. */
export type TestToolResult<Value = JsonValue> =
  | ({ readonly ok: true; readonly value: Value } & Observations)
  | ({
      readonly ok: false
      readonly error: CallError
      /** The value that the tool threw, if it was not a `ToolError`. */
      readonly thrown?: unknown
    } & Observations)

/**
 * Runs a tool as the server would: definition, input and output are checked, and the tool gets a context. Throws a
 * `DefinitionError` if the definition is invalid; everything else is a result. Approval counts as granted.
 */
export async function testTool<const I extends SchemaLike, const O extends SchemaLike | null>(
  tool: TypedTool<I, O>,
  input: StepInput<I>,
  options?: TestToolOptions,
): Promise<TestToolResult<StepResult<O>>>
/** Gets a prompt with its arguments, or reads a resource: `{ uri: 'docs://guide' }`. Returns the result that MCP clients get. */
export async function testTool(
  entry: DefinedTool & { readonly output?: never },
  input: Readonly<Record<string, string>>,
  options?: TestToolOptions,
): Promise<TestToolResult>
export async function testTool(
  tool: DefinedTool,
  input: unknown,
  options: TestToolOptions = {},
): Promise<TestToolResult> {
  const logs: TestLogLine[] = []
  const progress: Progress[] = []
  const questions: Elicitation[] = []
  let thrown: { readonly value: unknown } | undefined
  const { describeParameters = true } = options
  const definitions = withSteps([tool, ...(options.tools ?? [])]).map(withoutApproval)
  const tools = requireTools(definitions, { describeParameters })
  const [tested] = tools
  if (tested === undefined)
    throw new TypeError('testTool() needs the result of tool(), workflow(), prompt() or resource().')
  const gateway = openTestGateway(tools, {
    log: recorder(logs),
    fetch: options.fetch ?? noFetch,
    explainThrown(value) {
      thrown = { value }
      return explainThrown(value)
    },
  })
  try {
    const request = callRequest(tested.id)
    const { outcome } = await gateway.call(options.principal ?? CALLER, {
      ...request,
      tool: tested.entry === undefined ? request.tool : { ...request.tool, entry: tested.entry.kind },
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

/** The tools and, for workflows, the tools of their steps. */
function withSteps(tools: readonly DefinedTool[]): readonly DefinedTool[] {
  const found = new Set(tools)
  for (const each of found) {
    const uses: readonly unknown[] = 'uses' in each && Array.isArray(each.uses) ? each.uses : []
    for (const used of uses) if (isDefinedTool(used)) found.add(used)
  }
  return [...found]
}

/** A test has no approver, so approval is switched off. */
function withoutApproval(tool: DefinedTool): object {
  const policy = 'policy' in tool && typeof tool.policy === 'object' ? tool.policy : null
  const asks = policy !== null && 'approval' in policy && ASKING.has(policy.approval)
  return asks ? { ...tool, policy: { ...policy, approval: 'never' } } : tool
}

const ASKING: ReadonlySet<unknown> = new Set(['always', 'conditional'])

function recorder(lines: TestLogLine[]): Logger {
  const write =
    (level: keyof Logger): WriteLine =>
    (line: object | string, message?: string) => {
      if (typeof line === 'string') lines.push({ level, message: line, fields: {} })
      else lines.push({ level, message, fields: line })
    }
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}

const noFetch: typeof fetch = async () => {
  throw new Error(
    'A tool under test cannot use the network. Pass a stand-in to testTool(): { fetch: async (url) => … }.',
  )
}

/** Inputs arrive as JSON, so values that JSON cannot express never reach a tool. */
function jsonOf(input: unknown): JsonValue {
  const copied = copyJson(input)
  if (copied.ok) return copied.value
  throw new TypeError(`The input${copied.pointer} cannot be sent: ${copied.problem}`)
}

function secretsOf(values: Readonly<Record<string, string>> = {}): ReadonlyMap<string, Secret> {
  return new Map(Object.entries(values).map(([id, value]) => [id, new Secret(value)]))
}
