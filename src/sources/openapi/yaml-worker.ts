import { parentPort, workerData } from 'node:worker_threads'
import { yamlToJson } from './yaml-to-json.ts'

parentPort?.postMessage(yamlToJson(String(workerData)))
