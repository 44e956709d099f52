import { readFile } from 'node:fs/promises'
import type { Detection } from './detect-url.ts'
import { lookAtDocument, parseDescription } from './read-description.ts'

/** What a file is: a description of a service. `file` is absolute. */
export async function detectFile(file: string): Promise<Detection> {
  const document = parseDescription(await readFile(file, 'utf8'))
  if (document === undefined) {
    const why = `${file} is neither JSON nor YAML. To import a program that speaks MCP: collet import -- node ${file}`
    return { found: undefined, seen: [why] }
  }
  const look = lookAtDocument(document, { file })
  if (look.kind === 'found') return { found: look.source, seen: [] }
  const why = look.kind === 'unusable' ? look.why : `${file} is no OpenAPI, Swagger or OpenTool document.`
  return { found: undefined, seen: [why] }
}
