import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testTool } from 'collet/testing'
import { countWords } from './count-words.ts'

test('counts words, however they are spaced', async () => {
  const result = await testTool(countWords, { text: ' one  two\nthree ' })
  assert.deepEqual(result.ok && result.value, { words: 3 })
})
