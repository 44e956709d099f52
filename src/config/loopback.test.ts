import { expect, it } from 'vitest'
import { isLoopbackHost } from './loopback.ts'

it('knows loopback addresses and localhost', () => {
  for (const host of ['127.0.0.1', '127.8.9.1', '::1', '[::1]', 'localhost', 'LOCALHOST']) {
    expect(isLoopbackHost(host), host).toBe(true)
  }
})

it('treats everything else as reachable from outside', () => {
  for (const host of [
    '0.0.0.0',
    '::',
    '192.168.1.2',
    'example.com',
    '127.0.0.1.example.com',
    '',
    '128.0.0.1',
  ]) {
    expect(isLoopbackHost(host), host).toBe(false)
  }
})
