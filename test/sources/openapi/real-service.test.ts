import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JsonObject } from '#kernel/base/json'
import { createSchemaValidator } from '#schema/validator'
import type { OfferedTool } from '#sources/kit/source'
import { type ServerProcess, startCollet } from '../../e2e/server-process.ts'
import { call, openSource, SIGNAL, toolOf } from './imported-api.ts'

const ROOT = resolve(import.meta.dirname, '../../..')
const START_LIMIT_MS = 30_000
let server: ServerProcess
let folder: string

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'collet-openapi-real-'))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(
    join(folder, 'collet.config.ts'),
    `import demo from ${JSON.stringify(join(ROOT, 'examples/demo/collet.config.ts'))}
     export default { ...demo, server: { port: 0 } }`,
  )
  server = await startCollet(['serve'], { cwd: folder })
}, START_LIMIT_MS)
afterAll(async () => {
  await server.stop()
  rmSync(folder, { recursive: true })
})

/** A server of this project in another process, imported by the documents that it publishes itself. */
async function open(path: string) {
  const opened = openSource({ url: `${server.url}${path}` }, { allow: [new URL(server.url).host] })
  return { ...opened, discovery: await opened.source.discover(SIGNAL) }
}

describe('a real service, imported and called by its own document', () => {
  it('OTC: a tool of another server is called, and every answer fits the schema that it declares', async () => {
    const { source, discovery, close } = await open('/openapi.json')
    expect(discovery.warnings).toEqual([])
    const send = async (name: string, input: JsonObject) => {
      const tool = toolOf(discovery, name)
      expect(createSchemaValidator(tool.inputSchema)(input)).toEqual([])
      const value = (await call(source, tool, input, { secrets: credentialsOf(tool) })) ?? null
      if (tool.outputSchema !== null) expect(createSchemaValidator(tool.outputSchema)(value)).toEqual([])
      return value
    }
    const request = { tool_id: 'Calculator.Add', input: { a: 2, b: 3 } }
    const body = {
      $schema: 'https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json',
      request,
    }
    expect(await send('callTool', { body })).toMatchObject({ result: { success: true, value: 5 } })
    // The operation declares an Idempotency-Key: a different input under the same key is refused there (OWP-93).
    const other = { body: { ...body, request: { ...request, input: { a: 2, b: 4 } } } }
    await expect(send('callTool', other)).rejects.toThrow(/already used for a different request/)
    expect(JSON.stringify(await send('listTools', {}))).toContain('Calculator.Add')
    await close()
  })

  it('openwop: its catalog is read', async () => {
    const { source, discovery, close } = await open('/v1/openapi.json')
    const tool = toolOf(discovery, 'getTool')
    const value = await call(
      source,
      tool,
      { toolId: 'openwop:Calculator.Add' },
      { secrets: credentialsOf(tool) },
    )
    expect(value).toMatchObject({ toolId: 'openwop:Calculator.Add' })
    expect(createSchemaValidator(tool.outputSchema ?? {})(value ?? null)).toEqual([])
    const missing = call(source, tool, { toolId: 'openwop:No.Such' }, { secrets: credentialsOf(tool) })
    await expect(missing).rejects.toThrow(
      /answered 404 \(nothing was found for these parameters\): \{"error":"not_found"/,
    )
    await close()
  })
})

/** The server has no keys, so any key is accepted. */
function credentialsOf({ requirements }: OfferedTool): Record<string, string> {
  return Object.fromEntries((requirements?.secrets ?? []).map(({ id }) => [id, 'none']))
}
