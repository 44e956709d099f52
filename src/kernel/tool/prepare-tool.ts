import { hash } from 'node:crypto'
import type { Finding, Report } from '#kernel/base/errors'
import { definitionHash } from '#kernel/base/hash'
import { DEFAULT_VENDOR } from '#kernel/base/ids'
import { defined, describeValue, isJsonObject, isRecord, type JsonObject } from '#kernel/base/json'
import { checkSchema } from '#schema/check'
import { type ImportedSchema, readImportedSchema } from '#schema/imported'
import { inlineSchema } from '#schema/inline'
import { readInputSchema, readOutputSchema, type SchemaSource } from '#schema/read'
import { createInputCheck, createInputParse, createOutputCheck, type EnforcedSchema } from '#schema/validator'
import {
  checkDescription,
  checkId,
  checkKeys,
  checkName,
  checkParameters,
  checkRequirements,
  checkTags,
  checkTitle,
  checkVersion,
  defaultName,
  isFunction,
  readCatalogId,
  readSession,
  readUses,
} from './checks.ts'
import {
  entryReader,
  isWorkflow,
  type ReadEntry,
  type ToolDefinition,
  type WorkflowDefinition,
} from './define.ts'
import { readPolicy } from './policy.ts'
import { MAX_TIMER_MS, type SourceKind, type Tool, type ToolPolicy } from './tool.ts'

/**
 * Checks one definition completely and makes the frozen `Tool` that the server lists and calls. Loaders of the operator's own
 * code and sources of imported tools use it. The definition hash covers everything that a claim and an approval pin (rules 5 and 21).
 */

export interface PrepareOptions {
  /** File from which the definition was loaded, for findings. */
  readonly file?: string
  /** Digest of that file, which an approval pins (rule 21). Without it the definition's own functions are hashed. */
  readonly moduleHash?: string
  /** Timeout for tools that do not set one; 60 s by default. */
  readonly defaultTimeoutMs?: number
  /** Vendor in the catalog ids of host extensions: `x-host-<vendor>-…`. Default `local`. */
  readonly vendor?: string | undefined
  /** Kind of source; default `node-pack`, a tool written as code. */
  readonly source?: SourceKind
  /** Whether each parameter must have a description; `false` for tools from other parties (OTC/C-10). */
  readonly describeParameters?: boolean
  /**
   * For a definition from another party: called for members that are unusual but usable. Recursive schemas are cut off at a
   * depth, everything else is enforced as written, and patterns run in linear time.
   */
  readonly onWarning?: Report
}

/** The names of a tool, which are compared with other tools' names even if the definition has findings. */
export type ToolIdentity = Pick<Tool, 'id' | 'parts' | 'name' | 'catalogId'>

interface PreparedTool {
  readonly identity: ToolIdentity | undefined
  /** Present only if there are no findings. */
  readonly tool: Tool | undefined
  readonly findings: readonly Finding[]
}

const DEFAULT_TIMEOUT_MS = 60_000

const COMMON = {
  id: true,
  name: true,
  title: true,
  catalogId: true,
  description: true,
  tags: true,
  version: true,
  input: true,
  output: true,
} as const

const KEYS = Object.keys({
  ...COMMON,
  requirements: true,
  policy: true,
  task: true,
  session: true,
  run: true,
} satisfies Record<keyof ToolDefinition, true>)

const WORKFLOW_KEYS = Object.keys({
  ...COMMON,
  uses: true,
  policy: true,
  run: true,
} satisfies Record<keyof WorkflowDefinition, true>)

/** A workflow's default timeout is this many times the default of one tool; its steps have their own timeouts. */
const WORKFLOW_TIMEOUT_FACTOR = 10

/** Returns the tool, or every finding. */
export function prepareTool(definition: unknown, given: PrepareOptions = {}): PreparedTool {
  const asWorkflow = isWorkflow(definition)
  const members = isRecord(definition) ? definition : {}
  const findings: Finding[] = []
  const toolId = typeof members.id === 'string' ? members.id : '(no id)'
  const { file } = given
  const report: Report = (where, problem, fix) =>
    void findings.push(defined({ toolId, file, where, problem, fix }))
  if (members !== definition) {
    const problem = `Is ${describeValue(definition)}, not a definition.`
    report('tool', problem, 'Write `tool({ id, description, … })`.')
    return { identity: undefined, tool: undefined, findings }
  }
  const entry = entryReader(definition)?.read(members, report)
  const written: Written = entry?.tool ?? members
  const options: PrepareOptions = asWorkflow ? workflowOptions(given) : ownOptions(given, written)
  checkKeys(written, asWorkflow ? WORKFLOW_KEYS : KEYS, '', report)
  const identity = readIdentity(written, options, report)
  const tool = readTool(written, identity, { ...options, entry }, report)
  return { identity, tool: findings.length === 0 ? tool : undefined, findings }
}

function workflowOptions(given: PrepareOptions): PrepareOptions {
  const { defaultTimeoutMs = DEFAULT_TIMEOUT_MS } = given
  return {
    ...given,
    source: 'workflow',
    defaultTimeoutMs: Math.min(defaultTimeoutMs * WORKFLOW_TIMEOUT_FACTOR, MAX_TIMER_MS),
  }
}

/** OWP-31: a tool that runs commands is a host extension, wherever it comes from. */
function ownOptions(given: PrepareOptions, { policy }: Written): PrepareOptions {
  return isRecord(policy) && policy.safetyTier === 'exec' ? { ...given, source: 'host-extension' } : given
}

/** A definition may come from a file without types, so no member is trusted. */
type Written = { readonly [Key in keyof ToolDefinition | 'uses']?: unknown }

function readIdentity(
  { id, name, version, catalogId }: Written,
  { source = 'node-pack', vendor = DEFAULT_VENDOR }: PrepareOptions,
  report: Report,
): ToolIdentity | undefined {
  const parts = checkId(id, report)
  if (version !== undefined) checkVersion(version, parts, report)
  const written = name === undefined ? undefined : checkName(name, report)
  if (parts === undefined) return undefined
  const known = {
    name: name === undefined ? defaultName(parts, report) : written,
    catalogId: readCatalogId(catalogId, { parts, source, vendor }, report),
  }
  if (known.name === undefined || known.catalogId === undefined) return undefined
  return { id: `${parts.base}@${parts.version}`, parts, name: known.name, catalogId: known.catalogId }
}

function readTool(
  written: Written,
  identity: ToolIdentity | undefined,
  options: PrepareOptions & { readonly entry: ReadEntry | undefined },
  report: Report,
): Tool | undefined {
  const { source = 'node-pack', defaultTimeoutMs = DEFAULT_TIMEOUT_MS, moduleHash } = options
  const title = checkTitle(written.title, report)
  const description = checkDescription(written.description, report)
  const tags = checkTags(written.tags, report)
  const input = readInput(written.input, options, report)
  const output = readOutput(written.output, options, report)
  const requirements = checkRequirements(written.requirements, 'userId', report)
  const policy = readPolicy(written.policy, { source, defaultTimeoutMs }, report)
  const task = readTask(written.task, report)
  const session = readSession(written.session, report)
  const uses = isWorkflow(written) ? readUses(written.uses, report) : undefined
  const run = readRun(written, report)
  if (identity === undefined || description === undefined || input === undefined) return undefined
  if (output === undefined || run === undefined) return undefined
  checkIdentityNames(policy, input.schema, report)
  const { parts, ...names } = identity
  // Operators may change who sees a tool, what it costs and how much a model gets, so these are not part of the hash that a claim pins.
  const { cost: _cost, tenants: _tenants, modelBytes: _modelBytes, ...promised } = policy
  const published = {
    ...names,
    ...defined({ title }),
    description,
    source,
    inputSchema: input.schema,
    outputSchema: output.schema,
  }
  const entry = options.entry?.list({ name: names.name, inputSchema: input.schema }, report)
  const hashed = {
    session: session && { idleMs: session.idleMs },
    requirements: requirements?.json,
    uses,
    entry: entry && { kind: entry.kind, definition: entry.definition },
  }
  const ownHash = definitionHash({
    ...published,
    ...defined(hashed),
    policy: promised,
    module: moduleHash ?? codeHash(options.entry?.functions ?? functionsOf(written)),
  })
  const own = { policy, definitionHash: ownHash }
  return Object.freeze({
    ...published,
    parts,
    ...authoredOf(input, output),
    ...own,
    ...defined({
      tags,
      requirements: requirements && Object.freeze(requirements.requirements),
      workflow: uses && { uses, own, steps: undefined, depth: 1, run },
      task,
      session,
      entry,
    }),
    checkInput: createInputCheck(input.enforced),
    parseInput: createInputParse(input.validate),
    checkOutput: createOutputCheck(output.enforced),
    run,
  })
}

/** An identity without its parameters would be the same for every call. */
function checkIdentityNames({ identity = [] }: ToolPolicy, schema: JsonObject, report: Report): void {
  const properties = isJsonObject(schema.properties) ? schema.properties : {}
  const unknown = identity.find((name) => !Object.hasOwn(properties, name))
  if (unknown === undefined) return
  const problem = `Names \`${unknown}\`, which is no parameter of the tool.`
  report('policy/identity', problem, `Write some of: ${Object.keys(properties).join(', ')}.`)
}

function readTask(task: unknown, report: Report): 'required' | undefined {
  if (task === undefined || task === 'required') return task
  return report('task', `Is ${describeValue(task)}.`, "Write `task: 'required'`, or leave it out.")
}

interface ReadInput extends ReadSchema {
  readonly schema: JsonObject
  readonly enforced: EnforcedSchema
  readonly authored?: JsonObject
  readonly validate?: SchemaSource['validate']
}

/** The published schema, and the schema that values are checked against. */
interface ReadSchema {
  readonly schema: JsonObject | null
  readonly enforced: EnforcedSchema | null
  /** The schema as its author wrote it; absent for imported schemas, which are shown as published. */
  readonly authored?: JsonObject | null
}

function authoredOf({ authored: input }: ReadInput, { authored: output }: ReadSchema) {
  return input === undefined || output === undefined ? {} : { authored: Object.freeze({ input, output }) }
}

function readInput(written: unknown, options: PrepareOptions, report: Report): ReadInput | undefined {
  const { describeParameters = true, onWarning } = options
  const read =
    onWarning === undefined
      ? readOwnInput(written, report)
      : namedParameters(readImportedSchema(written, 'input', report, onWarning))
  if (read !== undefined) checkParameters(read.schema, 'input', report, { describeParameters })
  return read === undefined ? undefined : { ...read, schema: withProperties(read.schema) }
}

/** Some models refuse an object schema without `properties`. */
function withProperties(schema: JsonObject): JsonObject {
  if (schema.type !== 'object' || schema.properties !== undefined) return schema
  return Object.freeze({ ...schema, properties: Object.freeze({}) })
}

/** Inputs are always objects (OTC/T-13), so a schema without `type` is accepted. */
function namedParameters(read: ImportedSchema | undefined): ImportedSchema | undefined {
  if (read === undefined || 'type' in read.schema || Object.keys(read.schema).length === 0) return read
  return { ...read, schema: Object.freeze({ type: 'object', ...read.schema }) }
}

function readOwnInput(written: unknown, report: Report): ReadInput | undefined {
  const source = readInputSchema(written, report)
  const schema = source === undefined ? undefined : publish(source.json, 'input', report)
  if (source === undefined || schema === undefined) return undefined
  const { json, validate } = source
  return { schema, enforced: schema, authored: json, ...(validate === undefined ? {} : { validate }) }
}

/** Reads the output schema; `null` means no output (OTC-35). */
function readOutput(written: unknown, { onWarning }: PrepareOptions, report: Report): ReadSchema | undefined {
  if (written === null) return { schema: null, enforced: null, authored: null }
  if (onWarning !== undefined) return readImportedSchema(written, 'output', report, onWarning)
  const authored = readOutputSchema(written, report)
  const schema = authored === undefined ? undefined : publish(authored, 'output', report)
  return authored === undefined || schema === undefined ? undefined : { schema, enforced: schema, authored }
}

function publish(json: JsonObject, where: string, report: Report): JsonObject | undefined {
  const sound = checkSchema(json, where, report, { references: 'allowed' })
  return sound ? inlineSchema(json, where, report) : undefined
}

function functionsOf({ run, session }: Written): readonly unknown[] {
  const { open, close } = isRecord(session) ? { open: undefined, close: undefined, ...session } : {}
  return [run, open, close]
}

/** Hashes the definition's own functions, but not what these call (rule 21). */
function codeHash(functions: readonly unknown[]): string {
  return hash('sha256', JSON.stringify(functions.map(String)), 'base64url')
}

/** The server passes a context with `call` to a workflow, and another context to every other tool. */
type Run = (input: unknown, context: unknown) => unknown

function readRun(written: Written, report: Report): Run | undefined {
  const { run } = written
  if (isFunction<Run>(run)) return run.bind(written)
  return report('run', `Is ${describeValue(run)}.`, 'Write a function: `run: (input, context) => …`.')
}
