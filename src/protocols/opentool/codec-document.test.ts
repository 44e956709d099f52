import { describe, expect, it } from 'vitest'
import { serverBaseUrl } from './codec-document.ts'

describe('serverBaseUrl', () => {
  it.each([
    ['http://127.0.0.1:9627', 'http://127.0.0.1:9627/opentool'],
    ['http://127.0.0.1:9627/', 'http://127.0.0.1:9627/opentool'],
    ['https://h:9627/opentool', 'https://h:9627/opentool'],
    ['https://h/tools/v2/', 'https://h/tools/v2'],
    ['/opentool', undefined],
    ['ftp://h', undefined],
    ['', undefined],
  ])('OTS-04: %s → %s', (url, expected) => {
    expect(serverBaseUrl({ url })).toBe(expected)
  })
})
