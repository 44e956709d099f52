import { rmSync } from 'node:fs'
import { afterEach, expect, it } from 'vitest'
import { z } from 'zod'
import { type RunningServer, startServer } from '#server/start-server'
import { SOURCE_OPTIONS } from '#sources/source-types'
import { sqliteSettings } from '../test-settings.ts'
import { startRecordingServer } from './openapi/recording-server.ts'
import { untilSourcesRead } from './read-sources.ts'

const KIB = 1_024
const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

const RESULT = z.object({
  result: z.object({ success: z.boolean(), error: z.object({ message: z.string() }).optional() }),
})

async function call({ url }: RunningServer) {
  const response = await fetch(`${url}/tools/call`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ request: { tool_id: 'Shop.read', input: {} } }),
  })
  return RESULT.parse(await response.json()).result
}

it('a description may be larger than `egress.maxResponseBytes`, and the answer to a call may not', async () => {
  const upstream = await startRecordingServer()
  closing.push(() => upstream.close())
  const document = {
    openapi: '3.0.3',
    info: { title: 'Shop', version: '1', description: 'x'.repeat(400 * KIB) },
    servers: [{ url: upstream.origin }],
    paths: { '/thing': { get: { operationId: 'read', summary: 'Read.', responses: {} } } },
  }
  let answerBytes = 100 * KIB
  upstream.answer(({ url }) => ({
    body: url === '/api.json' ? JSON.stringify(document) : JSON.stringify('x'.repeat(answerBytes)),
  }))
  const options = SOURCE_OPTIONS.parse({
    type: 'openapi',
    url: `${upstream.origin}/api.json`,
    baseUrl: upstream.origin,
    // The smaller of the two limits counts.
    maxResponseBytes: 64 * KIB * KIB,
  })
  const settings = sqliteSettings({ sources: new Map([['Shop', options]]) })
  closing.push(() => rmSync(settings.dataFolder, { recursive: true }))
  const server = await startServer({
    ...settings,
    egress: { ...settings.egress, maxResponseBytes: 256 * KIB },
  })
  closing.push(() => server.close())
  await untilSourcesRead(server)
  expect(await call(server)).toMatchObject({ success: true })
  answerBytes = 400 * KIB
  expect(await call(server)).toEqual({
    success: false,
    error: {
      message: `The service behind the tool answered, but with more than ${256 * KIB} bytes, so the answer is not shown. If the call was meant to change something, do not repeat it; if it only reads, ask for less. An operator can raise \`egress.maxResponseBytes\`.`,
    },
  })
})
