BEGIN TRANSACTION;
CREATE TABLE messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  message_id TEXT,
  session_id TEXT NOT NULL REFERENCES sessions(id),
  role TEXT NOT NULL,
  content_json TEXT NOT NULL,
  created_timestamp INTEGER NOT NULL,
  timestamp TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
  tokens INTEGER,
  metadata_json TEXT
  );
INSERT INTO "messages" VALUES(1,'msg_20261117_1_883eb41d-63cd-4d55-92b9-1ac9ac2a6e83','20261117_1','user','[{"type":"text","text":"Please create hello.txt with a shell command, then tell me the answer. The codeword is heliotrope."}]',1794897536,'2026-11-17 06:38:56',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(2,'chatcmpl_00000001','20261117_1','assistant','[{"type":"thinking","thinking":"A file is wanted. One command will do.","signature":""},{"type":"text","text":"I run one command."}]',1794897537,'2026-11-17 06:38:57',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(3,'msg_6a03a1ab-07e9-4cdf-8d2a-8c5c9fd7956a','20261117_1','assistant','[{"type":"toolRequest","id":"call_00000002","toolCall":{"status":"success","value":{"name":"shell","arguments":{"command":"echo hello > hello.txt && echo it-was-written"}}},"_meta":{"goose_extension":"developer"}}]',1794897537,'2026-11-17 06:38:58',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(4,'msg_de954e09-e532-4f56-876a-02db8897827d','20261117_1','user','[{"type":"toolResponse","id":"call_00000002","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"it-was-written","annotations":{"priority":0.0}}],"structuredContent":{"stdout":"it-was-written","stderr":"","exit_code":0},"isError":false}}}]',1794897537,'2026-11-17 06:38:58',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(5,'chatcmpl_00000003','20261117_1','assistant','[{"type":"text","text":"Done. The answer is 42."}]',1794897538,'2026-11-17 06:38:58',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(6,'msg_20261117_1_b472f6aa-614e-4f6b-ae94-9098b27e56cf','20261117_1','user','[{"type":"text","text":"FOLLOWUP: what was the answer?"}]',1794897538,'2026-11-17 06:38:58',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(7,'chatcmpl_00000004','20261117_1','assistant','[{"type":"text","text":"I remember. The answer is still 42."}]',1794897538,'2026-11-17 06:38:58',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(8,'msg_20261117_2_4e4129e2-bf29-445f-b65c-7aaa0bf2ac19','20261117_2','user','[{"type":"text","text":"Please create hello.txt with a shell command, then tell me the answer. The codeword is heliotrope."}]',1794897539,'2026-11-17 06:38:59',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(9,'chatcmpl_00000006','20261117_2','assistant','[{"type":"thinking","thinking":"A file is wanted. One command will do.","signature":""},{"type":"text","text":"I run one command."}]',1794897540,'2026-11-17 06:39:00',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(10,'msg_a4d217c0-869f-465c-bcb5-3b2e4cc5dc89','20261117_2','assistant','[{"type":"toolRequest","id":"call_00000007","toolCall":{"status":"success","value":{"name":"shell","arguments":{"command":"echo it-was-written; sh -c ''exit 3''"}}},"_meta":{"goose_extension":"developer"}}]',1794897540,'2026-11-17 06:39:00',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(11,'msg_4a19bf55-e617-4e6c-8cc2-92b9396f09f0','20261117_2','user','[{"type":"toolResponse","id":"call_00000007","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"it-was-written\n\nCommand exited with code 3","annotations":{"priority":0.0}}],"structuredContent":{"stdout":"it-was-written","stderr":"","exit_code":3},"isError":true}}}]',1794897540,'2026-11-17 06:39:00',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(12,'chatcmpl_00000008','20261117_2','assistant','[{"type":"text","text":"Done. The answer is 42."}]',1794897540,'2026-11-17 06:39:01',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(13,'msg_20261117_3_b198a4a6-b7cc-4566-830c-18dfc3bd1620','20261117_3','user','[{"type":"text","text":"DELEGATE: let a helper do it."}]',1794897541,'2026-11-17 06:39:01',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(14,'msg_20261117_4_1d40fbc7-7343-4803-ab1c-6abce23d0022','20261117_4','user','[{"type":"text","text":"SUBTASK: Please create hello.txt with a shell command, then tell me the answer. The codeword is heliotrope."}]',1794897543,'2026-11-17 06:39:03',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(15,'chatcmpl_00000012','20261117_4','assistant','[{"type":"thinking","thinking":"A file is wanted. One command will do.","signature":""},{"type":"text","text":"I run one command."}]',1794897543,'2026-11-17 06:39:03',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(16,'msg_7542ee83-d4cd-4b6c-8df8-d2be49a48d0b','20261117_4','assistant','[{"type":"toolRequest","id":"call_00000013","toolCall":{"status":"success","value":{"name":"shell","arguments":{"command":"echo hello > hello.txt && echo it-was-written"}}},"_meta":{"goose_extension":"developer"}}]',1794897543,'2026-11-17 06:39:03',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(17,'msg_7289ab77-26f8-4e8e-bec4-924ed2a63956','20261117_4','user','[{"type":"toolResponse","id":"call_00000013","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"it-was-written","annotations":{"priority":0.0}}],"structuredContent":{"stdout":"it-was-written","stderr":"","exit_code":0},"isError":false}}}]',1794897543,'2026-11-17 06:39:03',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(18,'chatcmpl_00000014','20261117_4','assistant','[{"type":"text","text":"Done. The answer is 42."}]',1794897543,'2026-11-17 06:39:03',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(19,'chatcmpl_00000010','20261117_3','assistant','[{"type":"text","text":"I ask a helper."}]',1794897543,'2026-11-17 06:39:03',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(20,'msg_d720576b-51c5-4973-8ec8-93443ae33763','20261117_3','assistant','[{"type":"toolRequest","id":"call_00000011","toolCall":{"status":"success","value":{"name":"delegate","arguments":{"instructions":"SUBTASK: Please create hello.txt with a shell command, then tell me the answer. The codeword is heliotrope."}}},"_meta":{"goose_extension":"summon"}}]',1794897543,'2026-11-17 06:39:03',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(21,'msg_c78ddb04-17e8-4a9c-9fc2-b380324163e4','20261117_3','user','[{"type":"toolResponse","id":"call_00000011","toolResult":{"status":"success","value":{"content":[{"type":"text","text":"Done. The answer is 42."}],"isError":false,"_meta":{"subagent_session_id":"20261117_4"}}}}]',1794897543,'2026-11-17 06:39:03',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(22,'chatcmpl_00000015','20261117_3','assistant','[{"type":"text","text":"Done. The answer is 42."}]',1794897543,'2026-11-17 06:39:03',NULL,'{"userVisible":true,"agentVisible":true}');
INSERT INTO "messages" VALUES(23,'msg_20261117_5_af1fd1d5-c7af-494c-a668-ea08498a8e03','20261117_5','user','[{"type":"text","text":"Say hello."}]',1794897543,'2026-11-17 06:39:03',NULL,'{"userVisible":true,"agentVisible":true}');
CREATE TABLE schema_version (
  version INTEGER PRIMARY KEY,
  applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP
  );
CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL DEFAULT '',
  description TEXT NOT NULL DEFAULT '',
  user_set_name BOOLEAN DEFAULT FALSE,
  session_type TEXT NOT NULL DEFAULT 'user',
  working_dir TEXT NOT NULL,
  created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
  updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
  extension_data TEXT DEFAULT '{}',
  total_tokens INTEGER,
  input_tokens INTEGER,
  output_tokens INTEGER,
  accumulated_total_tokens INTEGER,
  accumulated_input_tokens INTEGER,
  accumulated_output_tokens INTEGER,
  accumulated_cost REAL,
  schedule_id TEXT,
  recipe_json TEXT,
  user_recipe_values_json TEXT,
  provider_name TEXT,
  model_config_json TEXT,
  goose_mode TEXT NOT NULL DEFAULT 'auto',
  archived_at TIMESTAMP,
  project_id TEXT
  );
INSERT INTO "sessions" VALUES('20261117_1','first','',1,'user','/work/project','2026-11-17 06:38:55','2026-11-17 06:38:58','{}',1257,1200,57,3771,3600,171,NULL,NULL,NULL,NULL,'openai','{"model_name":"scripted-model","context_limit":null,"temperature":null,"max_tokens":null,"toolshim":false,"toolshim_model":null}','auto',NULL,NULL);
INSERT INTO "sessions" VALUES('20261117_2','Hello','',0,'user','/work/project','2026-11-17 06:38:58','2026-11-17 06:39:01','{}',1257,1200,57,2514,2400,114,NULL,NULL,NULL,NULL,'openai','{"model_name":"scripted-model","context_limit":null,"temperature":null,"max_tokens":null,"toolshim":false,"toolshim_model":null}','auto',NULL,NULL);
INSERT INTO "sessions" VALUES('20261117_3','Hello','',0,'user','/work/project','2026-11-17 06:39:01','2026-11-17 06:39:03','{}',1257,1200,57,2514,2400,114,NULL,NULL,NULL,NULL,'openai','{"model_name":"scripted-model","context_limit":null,"temperature":null,"max_tokens":null,"toolshim":false,"toolshim_model":null}','auto',NULL,NULL);
INSERT INTO "sessions" VALUES('20261117_4','Delegated task','',0,'sub_agent','/work/project','2026-11-17 06:39:03','2026-11-17 06:39:03','{}',1257,1200,57,2514,2400,114,NULL,NULL,NULL,NULL,'openai','{"model_name":"scripted-model","context_limit":null,"temperature":null,"max_tokens":null,"toolshim":false,"toolshim_model":null}','auto',NULL,NULL);
INSERT INTO "sessions" VALUES('20261117_5','CLI Session','',0,'user','/work/project','2026-11-17 06:39:03','2026-11-17 06:39:03','{}',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'openai','{"model_name":"scripted-model","context_limit":null,"temperature":null,"max_tokens":null,"toolshim":false,"toolshim_model":null}','auto',NULL,NULL);
CREATE INDEX idx_messages_session ON messages(session_id);
CREATE INDEX idx_messages_timestamp ON messages(timestamp);
CREATE INDEX idx_messages_message_id ON messages(message_id);
CREATE INDEX idx_sessions_updated ON sessions(updated_at DESC);
CREATE INDEX idx_sessions_type ON sessions(session_type);
COMMIT;
