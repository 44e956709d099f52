import { fault } from '#core/errors'
import type { JsonValue } from '#core/json'
import { yamlToJson } from './yaml-to-json.ts'

/** JSON or YAML, told apart by how it begins: file names and media types are often wrong. */
export function parseText(text: string, place: string): JsonValue {
  const body = text.startsWith('\uFEFF') ? text.slice(1) : text
  try {
    return beginsAsJson(body) ? parseBraces(body) : parseYaml(body)
  } catch (error) {
    const why = error instanceof Error ? (error.message.split('\n')[0] ?? '') : ''
    throw fault('upstream_failed', `${place} is neither JSON nor YAML.`, {
      developerMessage: why,
      cause: error,
    })
  }
}

export function beginsAsJson(text: string): boolean {
  return /^\uFEFF?\s*[[{]/.test(text)
}

/** YAML's flow style begins with a brace too. */
function parseBraces(text: string): JsonValue {
  try {
    const value: JsonValue = JSON.parse(text)
    return value
  } catch {
    return parseYaml(text)
  }
}

function parseYaml(text: string): JsonValue {
  const value: JsonValue = JSON.parse(yamlToJson(text))
  return value
}
