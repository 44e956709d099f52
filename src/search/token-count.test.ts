import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { encode } from 'gpt-tokenizer/encoding/o200k_base'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import { countTokens, tokensOfTool, tokensText } from './token-count.ts'

const { resolve } = createRequire(import.meta.url)

/** The operations of a public OpenAPI document, as tools without resolved references. */
function operationsOf(file: string) {
  const document: JsonValue = parse(readFileSync(resolve(file), 'utf8'))
  const paths = isJsonObject(document) && isJsonObject(document.paths) ? Object.values(document.paths) : []
  return paths
    .flatMap((path) => (isJsonObject(path) ? Object.values(path) : []))
    .filter(isJsonObject)
    .flatMap(({ operationId, description, summary, parameters, requestBody }) =>
      typeof operationId === 'string'
        ? [
            {
              name: operationId,
              description: description ?? summary,
              inputSchema: { parameters, requestBody },
            },
          ]
        : [],
    )
}

const exact = ({ name, description, inputSchema }: ReturnType<typeof operationsOf>[number]): number =>
  encode(JSON.stringify({ name, description, parameters: inputSchema })).length

describe('the count of tokens', () => {
  it.each([
    ['@octokit/openapi/generated/api.github.com.json', 1_000],
    ['@netlify/open-api/dist/swagger.json', 150],
    ['@figma/rest-api-spec/openapi/openapi.yaml', 50],
  ])('differs by less than 5 %% from a real tokenizer for %s', (file, atLeast) => {
    const tools = operationsOf(file)
    expect(tools.length).toBeGreaterThan(atLeast)
    const real = tools.reduce((sum, tool) => sum + exact(tool), 0)
    const counted = tools.reduce((sum, tool) => sum + tokensOfTool(tool), 0)
    const errors = tools.map((tool) => Math.abs(tokensOfTool(tool) / exact(tool) - 1))
    const mean = errors.reduce((sum, error) => sum + error, 0) / errors.length
    const share = (value: number): string => `${(100 * value).toFixed(1)} %`
    process.stdout.write(
      `${file}: ${real} tokens, counted ${counted} (${share(counted / real - 1)}); a tool ${share(mean)} on average\n`,
    )
    expect(Math.abs(counted / real - 1)).toBeLessThan(0.05)
    expect(mean).toBeLessThan(0.1)
  })

  it('counts texts of other scripts as more than their words', () => {
    const text = 'Создаёт новую задачу. 新しい課題を作成します。'
    expect(countTokens(text) / encode(text).length).toBeGreaterThan(0.6)
    expect(countTokens(text) / encode(text).length).toBeLessThan(1.7)
    expect(countTokens('')).toBe(0)
  })

  it('is shown with two digits', () => {
    expect(tokensText(383_460)).toBe('about 380,000 tokens')
    expect(tokensText(42)).toBe('about 42 tokens')
  })
})
