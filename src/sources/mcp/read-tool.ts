import type { JsonObject } from '#core/json'
import { JSON_BOUNDS, tooMuchJson } from '#core/json-bounds'
import type { OfferedTool } from '#core/ports/source'
import { CONTENT_BLOCKS_SCHEMA, type ToolRequirements } from '#core/tool'
import type { PolicyDefinition } from '#core/tools/define'
import { policyOf } from '#sources/common/policy-options'
import { type Endpoint, endpointJson } from './endpoint.ts'
import { readHeaderParams } from './header-params.ts'
import type { McpOptions } from './options.ts'
import { raiseSchema } from './raise-schema.ts'
import { isWireObject, textOf } from './wire.ts'

const LONGEST_NAME = 256
const LARGEST_DEFINITION = 1_048_576
/** Comparing, checking and pinning one is a step each, which must be short for everybody else. */
const DEFINITION_BOUNDS = { ...JSON_BOUNDS, mostValues: 5_000 }

export type ReadTool =
  | { readonly ok: true; readonly tool: OfferedTool }
  | { readonly ok: false; readonly problem: string }

/** A tool as `tools/list` tells it; its annotations are not believed (MCP-57, OWP-33). */
export function readTool(written: JsonObject, options: McpOptions, endpoint: Endpoint): ReadTool {
  const name = textOf(written.name)
  if (name === undefined || name === '' || name.length > LONGEST_NAME)
    return { ok: false, problem: 'a tool without a usable name is left out' }
  const skip = (why: string): ReadTool => ({ ok: false, problem: `"${name}" is left out: ${why}` })
  const text = JSON.stringify(written)
  if (text.length > LARGEST_DEFINITION) return skip('its definition is larger than 1 MiB')
  const problem = tooMuchJson(Buffer.from(text), DEFINITION_BOUNDS)
  if (problem !== undefined) return skip(`its definition ${problem}`)
  const { inputSchema, outputSchema, execution } = written
  if (!isWireObject(inputSchema) || inputSchema.type !== 'object')
    return skip('its inputSchema does not describe an object')
  if (outputSchema !== undefined && !isWireObject(outputSchema)) return skip('its outputSchema is no schema')
  if (isWireObject(execution) && execution.taskSupport === 'required')
    return skip('it runs as a task only, which no client of this revision can drive')
  const headers = readHeaderParams(inputSchema)
  if (!headers.ok) return skip(headers.problem)
  const input = raiseSchema(headers.schema)
  if (!input.ok) return skip(input.problem)
  const output = raiseSchema(outputSchema ?? CONTENT_BLOCKS_SCHEMA)
  if (!output.ok) return skip(output.problem)
  const title = textOf(written.title)
  const requirements = requirementsOf(options)
  return {
    ok: true,
    tool: {
      nativeName: name,
      ...(title === undefined || title === '' ? {} : { title }),
      description: textOf(written.description) || title || name,
      inputSchema: input.schema,
      outputSchema: output.schema,
      ...(requirements === undefined ? {} : { requirements }),
      policy: mcpPolicy(name, options),
      binding: {
        endpoint: endpointJson(endpoint),
        isStructured: outputSchema !== undefined,
        headers: headers.params.map(({ header, path }) => ({ header, path: [...path] })),
        ...(options.authorization === undefined ? {} : { authorization: options.authorization.provider }),
        secretHeaders: options.secretHeaders,
      },
    },
  }
}

/** Unclassified is `write` (OWP-33); what the upstream reaches is its own affair, behind us (OWP-37). */
export function mcpPolicy(name: string, options: McpOptions): PolicyDefinition {
  return policyOf(name, options, {
    safetyTier: 'write',
    replay: 'non-deterministic',
    egress: 'host-mediated',
  })
}

/** What callers must bring: consent by the broker, secrets by the vault. Tokens made for us are never sent on (OWP-85). */
function requirementsOf({ authorization, secretHeaders }: McpOptions): ToolRequirements | undefined {
  const ids = [...new Set(Object.values(secretHeaders))]
  if (authorization === undefined && ids.length === 0) return undefined
  return {
    ...(authorization === undefined
      ? {}
      : { authorization: [{ id: authorization.provider, oauth2: { scopes: authorization.scopes } }] }),
    ...(ids.length === 0 ? {} : { secrets: ids.map((id) => ({ id })) }),
  }
}
