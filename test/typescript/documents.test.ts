import { basename, dirname, join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { nameTools } from '#cli/tools/write-types'
import { connect } from '#client/index'
import { startServer } from '#server/start-server'
import { writeToolTypes } from '#typescript/tool-types'
import { OWN_SET, readSet } from '../../bench/search/read-tools.ts'
import { openSource, SIGNAL } from '../sources/openapi/imported-api.ts'
import { testSettings } from '../test-settings.ts'
import { compile } from './compile.ts'

/** Types of real services compile, both from their documents, with references, and as a server lists them. */

const PACKAGES = resolve(import.meta.dirname, '../../node_modules')
const LIMIT_MS = 180_000
const DOCUMENTS = [
  '@octokit/openapi/generated/api.github.com.json',
  '@netlify/open-api/dist/swagger.json',
  '@figma/rest-api-spec/openapi/openapi.yaml',
  '@scalar/galaxy/dist/3.1.yaml',
  '@readme/oas-examples/3.1/json/readme.json',
  '@readme/oas-examples/3.0/json/star-trek.json',
  '@readme/oas-examples/3.1/yaml/train-travel.yaml',
  '@readme/oas-examples/2.0/yaml/petstore.yaml',
] as const

async function typesOf(path: string): Promise<string> {
  const place = { folder: join(PACKAGES, dirname(path)) }
  const { source, close } = openSource({ file: basename(path) }, place)
  try {
    const { tools } = await source.discover(SIGNAL)
    const described = tools.map(({ nativeName: id, description, inputSchema: input, outputSchema }) => ({
      tool: { id, description, input, output: outputSchema ?? ('any' as const) },
      ...{ name: id, others: [] },
    }))
    return writeToolTypes(described).text
  } finally {
    await close()
  }
}

describe('types of real services', () => {
  it(
    'compile from their documents',
    async () => {
      const files: Record<string, string> = {}
      for (const [index, path] of DOCUMENTS.entries()) files[`document-${index}.d.ts`] = await typesOf(path)
      expect(compile(files)).toBe('')
    },
    LIMIT_MS,
  )

  it(
    'compile as a server lists the tools of GitHub and of public MCP servers, and none is wider than its schema',
    async () => {
      const settings = testSettings({ tools: (await readSet(OWN_SET)).tools })
      const server = await startServer(settings, { graceMs: 0 })
      const listed = await connect(server.url).list()
      await server.close()
      const { text, widened } = writeToolTypes(nameTools(listed))
      expect(listed.length).toBeGreaterThan(1_250)
      expect(widened).toEqual([])
      expect(compile({ 'tools.d.ts': text })).toBe('')
    },
    LIMIT_MS,
  )
})
