import type { Finding, Report } from '#kernel/base/errors'
import { copyJson, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import {
  checkDescription,
  checkId,
  checkKeys,
  checkName,
  checkParameters,
  checkRequirements,
  checkVersion,
} from '#kernel/tool/checks'
import { checkSchema } from '#schema/check'

const KEYS = ['id', 'name', 'description', 'version', 'input_schema', 'output_schema', 'requirements']

/** Violations of OTC-23…41 by a ToolDefinition on the wire; empty for a valid one. */
export function checkToolDefinition(json: unknown): readonly Finding[] {
  const copied = copyJson(json)
  const definition = copied.ok && isJsonObject(copied.value) ? copied.value : undefined
  const findings: Finding[] = []
  const toolId = typeof definition?.id === 'string' ? definition.id : '(no id)'
  const report: Report = (where, problem, fix) => void findings.push({ toolId, where, problem, fix })
  if (definition === undefined)
    report('definition', 'Is not a JSON object.', `Send one with ${KEYS.join(', ')}.`)
  else checkMembers(definition, report)
  return findings
}

function checkMembers(definition: JsonObject, report: Report): void {
  checkKeys(definition, KEYS, '', report)
  const parts = checkId(definition.id, report)
  checkName(definition.name, report)
  checkDescription(definition.description, report)
  checkVersion(definition.version, parts, report)
  checkInput(definition.input_schema, report)
  checkOutput(definition.output_schema, report)
  checkRequirements(definition.requirements, 'user_id', report)
}

function checkInput(written: JsonValue | undefined, report: Report): void {
  if (!isJsonObject(written)) {
    report('input_schema', 'Is missing or not a schema.', 'Write JSON Schema, or `{}` for no parameters.')
    return
  }
  const { schema, where } = unwrap(written)
  if (!isJsonObject(schema))
    report(where, 'Is not a schema.', 'Write JSON Schema, or `{}` for no parameters.')
  else if (checkSchema(schema, where, report, { references: 'forbidden' })) {
    checkParameters(schema, where, report, { describeParameters: true })
  }
}

/** `{ parameters }` is the OTC form, anything else the schema itself (C-09). */
function unwrap(written: JsonObject): { readonly schema: JsonValue; readonly where: string } {
  const { parameters, type, properties } = written
  return parameters !== undefined && type === undefined && properties === undefined
    ? { schema: parameters, where: 'input_schema/parameters' }
    : { schema: written, where: 'input_schema' }
}

function checkOutput(written: JsonValue | undefined, report: Report): void {
  if (written === null) return
  if (isJsonObject(written)) checkSchema(written, 'output_schema', report, { references: 'forbidden' })
  else
    report(
      'output_schema',
      'Is missing or not a schema.',
      'Write JSON Schema, `{}` for any value, or null for none.',
    )
}
