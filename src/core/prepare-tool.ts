import { readCatalogId } from './catalog-id.ts'
import {
  checkDescription,
  checkId,
  checkName,
  checkTitle,
  checkVersion,
  defaultName,
} from './check-identity.ts'
import { checkKeys } from './check-keys.ts'
import { checkParameters } from './check-parameters.ts'
import { readPolicy } from './check-policy.ts'
import { checkRequirements } from './check-requirements.ts'
import { readSession } from './check-session.ts'
import { definitionHash } from './definition-hash.ts'
import { describeValue } from './describe-value.ts'
import type { Finding, Report } from './finding.ts'
import type { JsonObject } from './json.ts'
import { checkSchema } from './schema-check.ts'
import { inlineSchema } from './schema-inline.ts'
import { readInputSchema, readOutputSchema } from './schema-source.ts'
import type { SourceKind, Tool } from './tool.ts'
import { createInputCheck, createInputParse, createOutputCheck } from './tool-checks.ts'
import type { ToolDefinition } from './tool-definition.ts'

export interface PrepareOptions {
  /** Where the definition was loaded from, for findings. */
  readonly file?: string
  /** Digest of that file: what `run` does is part of what a yes is for (rule 21). */
  readonly moduleHash?: string
  /** Limit for tools that set none; 60 s unless told. */
  readonly defaultTimeoutMs?: number
  /** `node-pack`, a tool written as code, unless told. */
  readonly source?: SourceKind
  /** Whether each parameter must have a description; `false` only for tools of others (C-10). */
  readonly describeParameters?: boolean
}

export type PreparedTool =
  | { readonly ok: true; readonly tool: Tool }
  | { readonly ok: false; readonly findings: readonly Finding[] }

/** What must fit together between tools; known even when other parts of a definition are wrong. */
export type ToolIdentity = Pick<Tool, 'id' | 'parts' | 'name' | 'catalogId'>

export interface InspectedTool {
  readonly identity: ToolIdentity | undefined
  /** Only without findings. */
  readonly tool: Tool | undefined
  readonly findings: readonly Finding[]
}

const KEYS = Object.keys({
  id: true,
  name: true,
  title: true,
  catalogId: true,
  description: true,
  version: true,
  input: true,
  output: true,
  requirements: true,
  policy: true,
  session: true,
  run: true,
} satisfies Record<keyof ToolDefinition, true>)

/** Checks a definition completely and makes the tool the server lists and calls, or gives every finding. */
export function prepareTool(definition: unknown, options: PrepareOptions = {}): PreparedTool {
  const { tool, findings } = inspectTool(definition, options)
  return tool === undefined ? { ok: false, findings } : { ok: true, tool }
}

/** The same, and what is known of a tool that has findings. */
export function inspectTool(definition: unknown, options: PrepareOptions): InspectedTool {
  const written = isRecord(definition) ? definition : {}
  const findings: Finding[] = []
  const toolId = typeof written.id === 'string' ? written.id : '(no id)'
  const file = options.file === undefined ? {} : { file: options.file }
  const report: Report = (where, problem, fix) => findings.push({ toolId, ...file, where, problem, fix })
  if (written !== definition) {
    report(
      'tool',
      `Is ${describeValue(definition)}, not a definition.`,
      'Write `tool({ id, description, … })`.',
    )
    return { identity: undefined, tool: undefined, findings }
  }
  checkKeys(written, KEYS, '', report)
  const identity = readIdentity(written, options, report)
  const tool = readTool(written, identity, options, report)
  return { identity, tool: findings.length === 0 ? tool : undefined, findings }
}

/** A definition may come from a file without types, so nothing about it is believed. */
type Written = { readonly [Key in keyof ToolDefinition]?: unknown }

function readIdentity(
  { id, name, version, catalogId }: Written,
  { source = 'node-pack' }: PrepareOptions,
  report: Report,
): ToolIdentity | undefined {
  const parts = checkId(id, report)
  if (version !== undefined) checkVersion(version, parts, report)
  const written = name === undefined ? undefined : checkName(name, report)
  if (parts === undefined) return undefined
  const known = {
    name: name === undefined ? defaultName(parts, report) : written,
    catalogId: readCatalogId(catalogId, parts.base, source, report),
  }
  if (known.name === undefined || known.catalogId === undefined) return undefined
  return { id: `${parts.base}@${parts.version}`, parts, name: known.name, catalogId: known.catalogId }
}

function readTool(
  written: Written,
  identity: ToolIdentity | undefined,
  { source = 'node-pack', defaultTimeoutMs = 60_000, describeParameters = true, moduleHash }: PrepareOptions,
  report: Report,
): Tool | undefined {
  const title = checkTitle(written.title, report)
  const description = checkDescription(written.description, report)
  const input = readInput(written.input, describeParameters, report)
  const output = readOutput(written.output, report)
  const requirements = checkRequirements(written.requirements, 'userId', report)
  const policy = readPolicy(written.policy, { source, defaultTimeoutMs }, report)
  const session = readSession(written.session, report)
  const run = readRun(written, report)
  if (identity === undefined || description === undefined || input === undefined) return undefined
  if (output === undefined || run === undefined) return undefined
  const { parts, ...names } = identity
  // What a run costs is the operator's account and no promise: a call goes on under another price.
  const { cost: _cost, ...promised } = policy
  const published = {
    ...names,
    ...(title === undefined ? {} : { title }),
    description,
    source,
    inputSchema: input.schema,
    outputSchema: output.schema,
  }
  return Object.freeze({
    ...published,
    parts,
    authored: Object.freeze({ input: input.authored, output: output.authored }),
    ...(requirements === undefined ? {} : { requirements: Object.freeze(requirements.requirements) }),
    policy,
    definitionHash: definitionHash({
      ...published,
      ...(requirements === undefined ? {} : { requirements: requirements.json }),
      policy: promised,
      ...(session === undefined ? {} : { session: { idleMs: session.idleMs } }),
      ...(moduleHash === undefined ? {} : { module: moduleHash }),
    }),
    ...(session === undefined ? {} : { session }),
    checkInput: createInputCheck(input.schema),
    parseInput: createInputParse(input.validate),
    checkOutput: createOutputCheck(output.schema),
    run,
  })
}

function readInput(written: unknown, describeParameters: boolean, report: Report) {
  const source = readInputSchema(written, report)
  const schema = source === undefined ? undefined : publish(source.json, 'input', report)
  if (source === undefined || schema === undefined) return undefined
  checkParameters(schema, 'input', report, { describeParameters })
  return { schema, authored: source.json, validate: source.validate }
}

/** `null` = no output (OTC-35). */
function readOutput(written: unknown, report: Report): OutputSchemas | undefined {
  if (written === null) return { schema: null, authored: null }
  const authored = readOutputSchema(written, report)
  const schema = authored === undefined ? undefined : publish(authored, 'output', report)
  return authored === undefined || schema === undefined ? undefined : { schema, authored }
}

interface OutputSchemas {
  readonly schema: JsonObject | null
  readonly authored: JsonObject | null
}

function publish(json: JsonObject, where: string, report: Report): JsonObject | undefined {
  const sound = checkSchema(json, where, report, { references: 'allowed' })
  return sound ? inlineSchema(json, where, report) : undefined
}

function readRun(written: Written, report: Report): Tool['run'] | undefined {
  const { run } = written
  if (isRun(run)) return run.bind(written)
  report('run', `Is ${describeValue(run)}.`, 'Write a function: `run: (input, context) => …`.')
  return undefined
}

function isRecord(value: unknown): value is Written {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isRun(value: unknown): value is Tool['run'] {
  return typeof value === 'function'
}
