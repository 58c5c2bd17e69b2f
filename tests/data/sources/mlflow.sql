CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('dc11669786a5');
CREATE TABLE "experiments" (
	experiment_id INTEGER NOT NULL, 
	name VARCHAR(256) NOT NULL, 
	artifact_location VARCHAR(256), 
	lifecycle_stage VARCHAR(32), 
	creation_time BIGINT, 
	last_update_time BIGINT, 
	workspace VARCHAR(63) DEFAULT 'default' NOT NULL, 
	CONSTRAINT experiment_pk PRIMARY KEY (experiment_id), 
	CONSTRAINT experiments_lifecycle_stage CHECK (lifecycle_stage IN ('active', 'deleted')), 
	CONSTRAINT uq_experiments_workspace_name UNIQUE (workspace, name)
);
INSERT INTO "experiments" VALUES(0,'Default','make_mlflow.py/mlruns/0','active',1795025032386,1795025032386,'default');
INSERT INTO "experiments" VALUES(1,'xgb-sales','make_mlflow.py/artifacts','active',1795025032480,1795025032480,'default');
INSERT INTO "experiments" VALUES(2,'forest','make_mlflow.py/artifacts','active',1795025032519,1795025032519,'default');
CREATE TABLE "latest_metrics" (
	"key" VARCHAR(250) NOT NULL, 
	value FLOAT NOT NULL, 
	timestamp BIGINT, 
	step BIGINT NOT NULL, 
	is_nan BOOLEAN NOT NULL, 
	run_uuid VARCHAR(32) NOT NULL, 
	CONSTRAINT latest_metric_pk PRIMARY KEY ("key", run_uuid), 
	FOREIGN KEY(run_uuid) REFERENCES runs (run_uuid), 
	CHECK (is_nan IN (0, 1))
);
INSERT INTO "latest_metrics" VALUES('val_loss',2.33333333333333348136e+00,1795025033299,2,0,'ba6a806766704ac38b03361debb0f3f0');
INSERT INTO "latest_metrics" VALUES('accuracy',0.5,1795025033343,0,0,'ba6a806766704ac38b03361debb0f3f0');
INSERT INTO "latest_metrics" VALUES('val_loss',4.33333333333333348136e-01,1795025033663,2,0,'e725b2befa6d4410b5a7c0dc23a0913a');
INSERT INTO "latest_metrics" VALUES('accuracy',0.55,1795025033703,0,0,'e725b2befa6d4410b5a7c0dc23a0913a');
INSERT INTO "latest_metrics" VALUES('val_loss',1.3433333333333332682e+00,1795025034022,2,0,'f2f26fed555544e09db03b8c1e2254d8');
INSERT INTO "latest_metrics" VALUES('accuracy',0.6,1795025034067,0,0,'f2f26fed555544e09db03b8c1e2254d8');
INSERT INTO "latest_metrics" VALUES('val_loss',1.33433333333333314918e+00,1795025034383,2,0,'c8b8b55b82ff4164880ac101bc92121c');
INSERT INTO "latest_metrics" VALUES('accuracy',0.65,1795025034425,0,0,'c8b8b55b82ff4164880ac101bc92121c');
INSERT INTO "latest_metrics" VALUES('val_loss',1.79769313486231562234e+308,1795025034999,3,0,'6354736700f94daabfb9f40fc12898e1');
INSERT INTO "latest_metrics" VALUES('accuracy',0.75,1795025034959,0,0,'6354736700f94daabfb9f40fc12898e1');
INSERT INTO "latest_metrics" VALUES('val_loss',2.33333333333333348136e+00,1795025035507,2,0,'5116a15c5513411da7d3d68eda39d7c2');
INSERT INTO "latest_metrics" VALUES('accuracy',0.5,1795025035551,0,0,'5116a15c5513411da7d3d68eda39d7c2');
INSERT INTO "latest_metrics" VALUES('val_loss',4.33333333333333348136e-01,1795025035851,2,0,'814992e038d54525a4cc361ec2fd4008');
INSERT INTO "latest_metrics" VALUES('accuracy',0.55,1795025035883,0,0,'814992e038d54525a4cc361ec2fd4008');
INSERT INTO "latest_metrics" VALUES('val_loss',1.3433333333333332682e+00,1795025036183,2,0,'7d2a314e9dc7418fa41d2f0e453119a7');
INSERT INTO "latest_metrics" VALUES('accuracy',0.6,1795025036219,0,0,'7d2a314e9dc7418fa41d2f0e453119a7');
INSERT INTO "latest_metrics" VALUES('val_loss',1.33433333333333314918e+00,1795025036511,2,0,'36ed6328c2f04e7a82659c134b39dce4');
INSERT INTO "latest_metrics" VALUES('accuracy',0.65,1795025036551,0,0,'36ed6328c2f04e7a82659c134b39dce4');
INSERT INTO "latest_metrics" VALUES('val_loss',1.79769313486231562234e+308,1795025037141,3,0,'57e9b8b0d3334553bdf46cffc16f3a1e');
INSERT INTO "latest_metrics" VALUES('accuracy',0.75,1795025037107,0,0,'57e9b8b0d3334553bdf46cffc16f3a1e');
INSERT INTO "latest_metrics" VALUES('val_loss',1.0,1795025037389,0,0,'950dd0e5ef0548279af5d13d614224b8');
INSERT INTO "latest_metrics" VALUES('val_loss',0.5,1795025037605,0,0,'420c4dbb86a548d4b19aa4e6a0778c43');
INSERT INTO "latest_metrics" VALUES('val_loss',3.33333333333333314829e-01,1795025037789,0,0,'cd70c94d81ec461480d802c604357de5');
CREATE TABLE "metrics" (
	"key" VARCHAR(250) NOT NULL, 
	value FLOAT NOT NULL, 
	timestamp BIGINT NOT NULL, 
	run_uuid VARCHAR(32) NOT NULL, 
	step BIGINT DEFAULT '0' NOT NULL, 
	is_nan BOOLEAN DEFAULT '0' NOT NULL, 
	CONSTRAINT metric_pk PRIMARY KEY ("key", timestamp, step, run_uuid, value, is_nan), 
	FOREIGN KEY(run_uuid) REFERENCES runs (run_uuid), 
	CHECK (is_nan IN (0, 1))
);
INSERT INTO "metrics" VALUES('val_loss',3.0,1795025033187,'ba6a806766704ac38b03361debb0f3f0',0,0);
INSERT INTO "metrics" VALUES('val_loss',2.5,1795025033251,'ba6a806766704ac38b03361debb0f3f0',1,0);
INSERT INTO "metrics" VALUES('val_loss',2.33333333333333348136e+00,1795025033299,'ba6a806766704ac38b03361debb0f3f0',2,0);
INSERT INTO "metrics" VALUES('accuracy',0.5,1795025033343,'ba6a806766704ac38b03361debb0f3f0',0,0);
INSERT INTO "metrics" VALUES('val_loss',1.1,1795025033574,'e725b2befa6d4410b5a7c0dc23a0913a',0,0);
INSERT INTO "metrics" VALUES('val_loss',0.6,1795025033615,'e725b2befa6d4410b5a7c0dc23a0913a',1,0);
INSERT INTO "metrics" VALUES('val_loss',4.33333333333333348136e-01,1795025033663,'e725b2befa6d4410b5a7c0dc23a0913a',2,0);
INSERT INTO "metrics" VALUES('accuracy',0.55,1795025033703,'e725b2befa6d4410b5a7c0dc23a0913a',0,0);
INSERT INTO "metrics" VALUES('val_loss',2.01,1795025033923,'f2f26fed555544e09db03b8c1e2254d8',0,0);
INSERT INTO "metrics" VALUES('val_loss',1.51,1795025033971,'f2f26fed555544e09db03b8c1e2254d8',1,0);
INSERT INTO "metrics" VALUES('val_loss',1.3433333333333332682e+00,1795025034022,'f2f26fed555544e09db03b8c1e2254d8',2,0);
INSERT INTO "metrics" VALUES('accuracy',0.6,1795025034067,'f2f26fed555544e09db03b8c1e2254d8',0,0);
INSERT INTO "metrics" VALUES('val_loss',2.001,1795025034303,'c8b8b55b82ff4164880ac101bc92121c',0,0);
INSERT INTO "metrics" VALUES('val_loss',1.501,1795025034343,'c8b8b55b82ff4164880ac101bc92121c',1,0);
INSERT INTO "metrics" VALUES('val_loss',1.33433333333333314918e+00,1795025034383,'c8b8b55b82ff4164880ac101bc92121c',2,0);
INSERT INTO "metrics" VALUES('accuracy',0.65,1795025034425,'c8b8b55b82ff4164880ac101bc92121c',0,0);
INSERT INTO "metrics" VALUES('val_loss',2.00001,1795025034831,'6354736700f94daabfb9f40fc12898e1',0,0);
INSERT INTO "metrics" VALUES('val_loss',1.50001,1795025034875,'6354736700f94daabfb9f40fc12898e1',1,0);
INSERT INTO "metrics" VALUES('val_loss',1.33334333333333332483e+00,1795025034915,'6354736700f94daabfb9f40fc12898e1',2,0);
INSERT INTO "metrics" VALUES('accuracy',0.75,1795025034959,'6354736700f94daabfb9f40fc12898e1',0,0);
INSERT INTO "metrics" VALUES('val_loss',1.79769313486231562234e+308,1795025034999,'6354736700f94daabfb9f40fc12898e1',3,0);
INSERT INTO "metrics" VALUES('val_loss',3.0,1795025035419,'5116a15c5513411da7d3d68eda39d7c2',0,0);
INSERT INTO "metrics" VALUES('val_loss',2.5,1795025035463,'5116a15c5513411da7d3d68eda39d7c2',1,0);
INSERT INTO "metrics" VALUES('val_loss',2.33333333333333348136e+00,1795025035507,'5116a15c5513411da7d3d68eda39d7c2',2,0);
INSERT INTO "metrics" VALUES('accuracy',0.5,1795025035551,'5116a15c5513411da7d3d68eda39d7c2',0,0);
INSERT INTO "metrics" VALUES('val_loss',1.1,1795025035771,'814992e038d54525a4cc361ec2fd4008',0,0);
INSERT INTO "metrics" VALUES('val_loss',0.6,1795025035807,'814992e038d54525a4cc361ec2fd4008',1,0);
INSERT INTO "metrics" VALUES('val_loss',4.33333333333333348136e-01,1795025035851,'814992e038d54525a4cc361ec2fd4008',2,0);
INSERT INTO "metrics" VALUES('accuracy',0.55,1795025035883,'814992e038d54525a4cc361ec2fd4008',0,0);
INSERT INTO "metrics" VALUES('val_loss',2.01,1795025036107,'7d2a314e9dc7418fa41d2f0e453119a7',0,0);
INSERT INTO "metrics" VALUES('val_loss',1.51,1795025036143,'7d2a314e9dc7418fa41d2f0e453119a7',1,0);
INSERT INTO "metrics" VALUES('val_loss',1.3433333333333332682e+00,1795025036183,'7d2a314e9dc7418fa41d2f0e453119a7',2,0);
INSERT INTO "metrics" VALUES('accuracy',0.6,1795025036219,'7d2a314e9dc7418fa41d2f0e453119a7',0,0);
INSERT INTO "metrics" VALUES('val_loss',2.001,1795025036431,'36ed6328c2f04e7a82659c134b39dce4',0,0);
INSERT INTO "metrics" VALUES('val_loss',1.501,1795025036475,'36ed6328c2f04e7a82659c134b39dce4',1,0);
INSERT INTO "metrics" VALUES('val_loss',1.33433333333333314918e+00,1795025036511,'36ed6328c2f04e7a82659c134b39dce4',2,0);
INSERT INTO "metrics" VALUES('accuracy',0.65,1795025036551,'36ed6328c2f04e7a82659c134b39dce4',0,0);
INSERT INTO "metrics" VALUES('val_loss',2.00001,1795025036975,'57e9b8b0d3334553bdf46cffc16f3a1e',0,0);
INSERT INTO "metrics" VALUES('val_loss',1.50001,1795025037019,'57e9b8b0d3334553bdf46cffc16f3a1e',1,0);
INSERT INTO "metrics" VALUES('val_loss',1.33334333333333332483e+00,1795025037067,'57e9b8b0d3334553bdf46cffc16f3a1e',2,0);
INSERT INTO "metrics" VALUES('accuracy',0.75,1795025037107,'57e9b8b0d3334553bdf46cffc16f3a1e',0,0);
INSERT INTO "metrics" VALUES('val_loss',1.79769313486231562234e+308,1795025037141,'57e9b8b0d3334553bdf46cffc16f3a1e',3,0);
INSERT INTO "metrics" VALUES('val_loss',1.0,1795025037389,'950dd0e5ef0548279af5d13d614224b8',0,0);
INSERT INTO "metrics" VALUES('val_loss',0.5,1795025037605,'420c4dbb86a548d4b19aa4e6a0778c43',0,0);
INSERT INTO "metrics" VALUES('val_loss',3.33333333333333314829e-01,1795025037789,'cd70c94d81ec461480d802c604357de5',0,0);
CREATE TABLE "params" (
	"key" VARCHAR(250) NOT NULL, 
	value VARCHAR(8000) NOT NULL, 
	run_uuid VARCHAR(32) NOT NULL, 
	CONSTRAINT param_pk PRIMARY KEY ("key", run_uuid), 
	FOREIGN KEY(run_uuid) REFERENCES runs (run_uuid)
);
INSERT INTO "params" VALUES('lr','1.0','ba6a806766704ac38b03361debb0f3f0');
INSERT INTO "params" VALUES('depth','1','ba6a806766704ac38b03361debb0f3f0');
INSERT INTO "params" VALUES('warm','True','ba6a806766704ac38b03361debb0f3f0');
INSERT INTO "params" VALUES('max_leaves','7','ba6a806766704ac38b03361debb0f3f0');
INSERT INTO "params" VALUES('lr','0.1','e725b2befa6d4410b5a7c0dc23a0913a');
INSERT INTO "params" VALUES('depth','2','e725b2befa6d4410b5a7c0dc23a0913a');
INSERT INTO "params" VALUES('warm','False','e725b2befa6d4410b5a7c0dc23a0913a');
INSERT INTO "params" VALUES('max_leaves','None','e725b2befa6d4410b5a7c0dc23a0913a');
INSERT INTO "params" VALUES('lr','0.01','f2f26fed555544e09db03b8c1e2254d8');
INSERT INTO "params" VALUES('depth','3','f2f26fed555544e09db03b8c1e2254d8');
INSERT INTO "params" VALUES('warm','True','f2f26fed555544e09db03b8c1e2254d8');
INSERT INTO "params" VALUES('max_leaves','7','f2f26fed555544e09db03b8c1e2254d8');
INSERT INTO "params" VALUES('lr','0.001','c8b8b55b82ff4164880ac101bc92121c');
INSERT INTO "params" VALUES('depth','1','c8b8b55b82ff4164880ac101bc92121c');
INSERT INTO "params" VALUES('warm','False','c8b8b55b82ff4164880ac101bc92121c');
INSERT INTO "params" VALUES('max_leaves','None','c8b8b55b82ff4164880ac101bc92121c');
INSERT INTO "params" VALUES('lr','0.0001','cd263b1de2d54626876c5011e76bccd4');
INSERT INTO "params" VALUES('depth','2','cd263b1de2d54626876c5011e76bccd4');
INSERT INTO "params" VALUES('warm','True','cd263b1de2d54626876c5011e76bccd4');
INSERT INTO "params" VALUES('max_leaves','7','cd263b1de2d54626876c5011e76bccd4');
INSERT INTO "params" VALUES('lr','1e-05','6354736700f94daabfb9f40fc12898e1');
INSERT INTO "params" VALUES('depth','3','6354736700f94daabfb9f40fc12898e1');
INSERT INTO "params" VALUES('warm','False','6354736700f94daabfb9f40fc12898e1');
INSERT INTO "params" VALUES('max_leaves','None','6354736700f94daabfb9f40fc12898e1');
INSERT INTO "params" VALUES('lr','1.0','5116a15c5513411da7d3d68eda39d7c2');
INSERT INTO "params" VALUES('depth','1','5116a15c5513411da7d3d68eda39d7c2');
INSERT INTO "params" VALUES('warm','True','5116a15c5513411da7d3d68eda39d7c2');
INSERT INTO "params" VALUES('max_leaves','7','5116a15c5513411da7d3d68eda39d7c2');
INSERT INTO "params" VALUES('lr','0.1','814992e038d54525a4cc361ec2fd4008');
INSERT INTO "params" VALUES('depth','2','814992e038d54525a4cc361ec2fd4008');
INSERT INTO "params" VALUES('warm','False','814992e038d54525a4cc361ec2fd4008');
INSERT INTO "params" VALUES('max_leaves','None','814992e038d54525a4cc361ec2fd4008');
INSERT INTO "params" VALUES('lr','0.01','7d2a314e9dc7418fa41d2f0e453119a7');
INSERT INTO "params" VALUES('depth','3','7d2a314e9dc7418fa41d2f0e453119a7');
INSERT INTO "params" VALUES('warm','True','7d2a314e9dc7418fa41d2f0e453119a7');
INSERT INTO "params" VALUES('max_leaves','7','7d2a314e9dc7418fa41d2f0e453119a7');
INSERT INTO "params" VALUES('lr','0.001','36ed6328c2f04e7a82659c134b39dce4');
INSERT INTO "params" VALUES('depth','1','36ed6328c2f04e7a82659c134b39dce4');
INSERT INTO "params" VALUES('warm','False','36ed6328c2f04e7a82659c134b39dce4');
INSERT INTO "params" VALUES('max_leaves','None','36ed6328c2f04e7a82659c134b39dce4');
INSERT INTO "params" VALUES('lr','0.0001','a4cf4c8d28c743169b7a8d68308e0556');
INSERT INTO "params" VALUES('depth','2','a4cf4c8d28c743169b7a8d68308e0556');
INSERT INTO "params" VALUES('warm','True','a4cf4c8d28c743169b7a8d68308e0556');
INSERT INTO "params" VALUES('max_leaves','7','a4cf4c8d28c743169b7a8d68308e0556');
INSERT INTO "params" VALUES('lr','1e-05','57e9b8b0d3334553bdf46cffc16f3a1e');
INSERT INTO "params" VALUES('depth','3','57e9b8b0d3334553bdf46cffc16f3a1e');
INSERT INTO "params" VALUES('warm','False','57e9b8b0d3334553bdf46cffc16f3a1e');
INSERT INTO "params" VALUES('max_leaves','None','57e9b8b0d3334553bdf46cffc16f3a1e');
INSERT INTO "params" VALUES('trees','10','950dd0e5ef0548279af5d13d614224b8');
INSERT INTO "params" VALUES('criterion','gini','950dd0e5ef0548279af5d13d614224b8');
INSERT INTO "params" VALUES('trees','20','420c4dbb86a548d4b19aa4e6a0778c43');
INSERT INTO "params" VALUES('criterion','gini','420c4dbb86a548d4b19aa4e6a0778c43');
INSERT INTO "params" VALUES('trees','30','cd70c94d81ec461480d802c604357de5');
INSERT INTO "params" VALUES('criterion','gini','cd70c94d81ec461480d802c604357de5');
CREATE TABLE "runs" (
	run_uuid VARCHAR(32) NOT NULL, 
	name VARCHAR(250), 
	source_type VARCHAR(20), 
	source_name VARCHAR(500), 
	entry_point_name VARCHAR(50), 
	user_id VARCHAR(256), 
	status VARCHAR(9), 
	start_time BIGINT, 
	end_time BIGINT, 
	source_version VARCHAR(50), 
	lifecycle_stage VARCHAR(20), 
	artifact_uri VARCHAR(200), 
	experiment_id INTEGER, deleted_time BIGINT, 
	CONSTRAINT run_pk PRIMARY KEY (run_uuid), 
	CONSTRAINT source_type CHECK (source_type IN ('NOTEBOOK', 'JOB', 'LOCAL', 'UNKNOWN', 'PROJECT')), 
	CONSTRAINT runs_lifecycle_stage CHECK (lifecycle_stage IN ('active', 'deleted')), 
	FOREIGN KEY(experiment_id) REFERENCES experiments (experiment_id), 
	CHECK (status IN ('SCHEDULED', 'FAILED', 'FINISHED', 'RUNNING', 'KILLED'))
);
INSERT INTO "runs" VALUES('ed3708f60cf2453dbaf4f2b73c865d03','sweep-0','UNKNOWN','','','user','FINISHED',1795025032820,1795025035083,'','active','make_mlflow.py/artifacts/ed3708f60cf2453dbaf4f2b73c865d03/artifacts',1,NULL);
INSERT INTO "runs" VALUES('ba6a806766704ac38b03361debb0f3f0','bald-elk-768','UNKNOWN','','','user','FINISHED',1795025033016,1795025033375,'','active','make_mlflow.py/artifacts/ba6a806766704ac38b03361debb0f3f0/artifacts',1,NULL);
INSERT INTO "runs" VALUES('e725b2befa6d4410b5a7c0dc23a0913a','unleashed-cub-345','UNKNOWN','','','user','FINISHED',1795025033432,1795025033743,'','active','make_mlflow.py/artifacts/e725b2befa6d4410b5a7c0dc23a0913a/artifacts',1,NULL);
INSERT INTO "runs" VALUES('f2f26fed555544e09db03b8c1e2254d8','mercurial-skink-48','UNKNOWN','','','user','FINISHED',1795025033780,1795025034103,'','active','make_mlflow.py/artifacts/f2f26fed555544e09db03b8c1e2254d8/artifacts',1,NULL);
INSERT INTO "runs" VALUES('c8b8b55b82ff4164880ac101bc92121c','aged-finch-761','UNKNOWN','','','user','FINISHED',1795025034148,1795025034463,'','active','make_mlflow.py/artifacts/c8b8b55b82ff4164880ac101bc92121c/artifacts',1,NULL);
INSERT INTO "runs" VALUES('cd263b1de2d54626876c5011e76bccd4','nervous-shrike-33','UNKNOWN','','','user','FAILED',1795025034504,1795025034647,'','active','make_mlflow.py/artifacts/cd263b1de2d54626876c5011e76bccd4/artifacts',1,NULL);
INSERT INTO "runs" VALUES('6354736700f94daabfb9f40fc12898e1','enchanting-bear-812','UNKNOWN','','','user','FINISHED',1795025034689,1795025035043,'','active','make_mlflow.py/artifacts/6354736700f94daabfb9f40fc12898e1/artifacts',1,NULL);
INSERT INTO "runs" VALUES('59253f2258e34a2c9667028f7e496762','sweep-1','UNKNOWN','','','user','FINISHED',1795025035132,1795025037227,'','active','make_mlflow.py/artifacts/59253f2258e34a2c9667028f7e496762/artifacts',1,NULL);
INSERT INTO "runs" VALUES('5116a15c5513411da7d3d68eda39d7c2','masked-finch-590','UNKNOWN','','','user','FINISHED',1795025035272,1795025035587,'','active','make_mlflow.py/artifacts/5116a15c5513411da7d3d68eda39d7c2/artifacts',1,NULL);
INSERT INTO "runs" VALUES('814992e038d54525a4cc361ec2fd4008','unique-colt-809','UNKNOWN','','','user','FINISHED',1795025035628,1795025035927,'','active','make_mlflow.py/artifacts/814992e038d54525a4cc361ec2fd4008/artifacts',1,NULL);
INSERT INTO "runs" VALUES('7d2a314e9dc7418fa41d2f0e453119a7','polite-smelt-788','UNKNOWN','','','user','FINISHED',1795025035968,1795025036259,'','active','make_mlflow.py/artifacts/7d2a314e9dc7418fa41d2f0e453119a7/artifacts',1,NULL);
INSERT INTO "runs" VALUES('36ed6328c2f04e7a82659c134b39dce4','unique-panda-612','UNKNOWN','','','user','FINISHED',1795025036295,1795025036590,'','active','make_mlflow.py/artifacts/36ed6328c2f04e7a82659c134b39dce4/artifacts',1,NULL);
INSERT INTO "runs" VALUES('a4cf4c8d28c743169b7a8d68308e0556','hilarious-cat-109','UNKNOWN','','','user','FAILED',1795025036652,1795025036799,'','active','make_mlflow.py/artifacts/a4cf4c8d28c743169b7a8d68308e0556/artifacts',1,NULL);
INSERT INTO "runs" VALUES('57e9b8b0d3334553bdf46cffc16f3a1e','wistful-stag-275','UNKNOWN','','','user','FINISHED',1795025036846,1795025037187,'','active','make_mlflow.py/artifacts/57e9b8b0d3334553bdf46cffc16f3a1e/artifacts',1,NULL);
INSERT INTO "runs" VALUES('950dd0e5ef0548279af5d13d614224b8','judicious-flea-151','UNKNOWN','','','user','FINISHED',1795025037283,1795025037439,'','active','make_mlflow.py/artifacts/950dd0e5ef0548279af5d13d614224b8/artifacts',2,NULL);
INSERT INTO "runs" VALUES('420c4dbb86a548d4b19aa4e6a0778c43','powerful-deer-767','UNKNOWN','','','user','FINISHED',1795025037480,1795025037655,'','active','make_mlflow.py/artifacts/420c4dbb86a548d4b19aa4e6a0778c43/artifacts',2,NULL);
INSERT INTO "runs" VALUES('cd70c94d81ec461480d802c604357de5','efficient-bear-406','UNKNOWN','','','user','FINISHED',1795025037700,1795025037827,'','deleted','make_mlflow.py/artifacts/cd70c94d81ec461480d802c604357de5/artifacts',2,1795025037869);
CREATE TABLE "tags" (
	"key" VARCHAR(250) NOT NULL, 
	value VARCHAR(8000), 
	run_uuid VARCHAR(32) NOT NULL, 
	CONSTRAINT tag_pk PRIMARY KEY ("key", run_uuid), 
	FOREIGN KEY(run_uuid) REFERENCES runs (run_uuid)
);
INSERT INTO "tags" VALUES('mlflow.runName','sweep-0','ed3708f60cf2453dbaf4f2b73c865d03');
INSERT INTO "tags" VALUES('dataset','sales-0','ed3708f60cf2453dbaf4f2b73c865d03');
INSERT INTO "tags" VALUES('rows','1000','ed3708f60cf2453dbaf4f2b73c865d03');
INSERT INTO "tags" VALUES('mlflow.parentRunId','ed3708f60cf2453dbaf4f2b73c865d03','ba6a806766704ac38b03361debb0f3f0');
INSERT INTO "tags" VALUES('mlflow.runName','bald-elk-768','ba6a806766704ac38b03361debb0f3f0');
INSERT INTO "tags" VALUES('mlflow.parentRunId','ed3708f60cf2453dbaf4f2b73c865d03','e725b2befa6d4410b5a7c0dc23a0913a');
INSERT INTO "tags" VALUES('mlflow.runName','unleashed-cub-345','e725b2befa6d4410b5a7c0dc23a0913a');
INSERT INTO "tags" VALUES('mlflow.parentRunId','ed3708f60cf2453dbaf4f2b73c865d03','f2f26fed555544e09db03b8c1e2254d8');
INSERT INTO "tags" VALUES('mlflow.runName','mercurial-skink-48','f2f26fed555544e09db03b8c1e2254d8');
INSERT INTO "tags" VALUES('mlflow.parentRunId','ed3708f60cf2453dbaf4f2b73c865d03','c8b8b55b82ff4164880ac101bc92121c');
INSERT INTO "tags" VALUES('mlflow.runName','aged-finch-761','c8b8b55b82ff4164880ac101bc92121c');
INSERT INTO "tags" VALUES('mlflow.parentRunId','ed3708f60cf2453dbaf4f2b73c865d03','cd263b1de2d54626876c5011e76bccd4');
INSERT INTO "tags" VALUES('mlflow.runName','nervous-shrike-33','cd263b1de2d54626876c5011e76bccd4');
INSERT INTO "tags" VALUES('mlflow.parentRunId','ed3708f60cf2453dbaf4f2b73c865d03','6354736700f94daabfb9f40fc12898e1');
INSERT INTO "tags" VALUES('mlflow.runName','enchanting-bear-812','6354736700f94daabfb9f40fc12898e1');
INSERT INTO "tags" VALUES('mlflow.runName','sweep-1','59253f2258e34a2c9667028f7e496762');
INSERT INTO "tags" VALUES('dataset','sales-1','59253f2258e34a2c9667028f7e496762');
INSERT INTO "tags" VALUES('rows','2000','59253f2258e34a2c9667028f7e496762');
INSERT INTO "tags" VALUES('mlflow.parentRunId','59253f2258e34a2c9667028f7e496762','5116a15c5513411da7d3d68eda39d7c2');
INSERT INTO "tags" VALUES('mlflow.runName','masked-finch-590','5116a15c5513411da7d3d68eda39d7c2');
INSERT INTO "tags" VALUES('mlflow.parentRunId','59253f2258e34a2c9667028f7e496762','814992e038d54525a4cc361ec2fd4008');
INSERT INTO "tags" VALUES('mlflow.runName','unique-colt-809','814992e038d54525a4cc361ec2fd4008');
INSERT INTO "tags" VALUES('mlflow.parentRunId','59253f2258e34a2c9667028f7e496762','7d2a314e9dc7418fa41d2f0e453119a7');
INSERT INTO "tags" VALUES('mlflow.runName','polite-smelt-788','7d2a314e9dc7418fa41d2f0e453119a7');
INSERT INTO "tags" VALUES('mlflow.parentRunId','59253f2258e34a2c9667028f7e496762','36ed6328c2f04e7a82659c134b39dce4');
INSERT INTO "tags" VALUES('mlflow.runName','unique-panda-612','36ed6328c2f04e7a82659c134b39dce4');
INSERT INTO "tags" VALUES('mlflow.parentRunId','59253f2258e34a2c9667028f7e496762','a4cf4c8d28c743169b7a8d68308e0556');
INSERT INTO "tags" VALUES('mlflow.runName','hilarious-cat-109','a4cf4c8d28c743169b7a8d68308e0556');
INSERT INTO "tags" VALUES('mlflow.parentRunId','59253f2258e34a2c9667028f7e496762','57e9b8b0d3334553bdf46cffc16f3a1e');
INSERT INTO "tags" VALUES('mlflow.runName','wistful-stag-275','57e9b8b0d3334553bdf46cffc16f3a1e');
INSERT INTO "tags" VALUES('mlflow.runName','judicious-flea-151','950dd0e5ef0548279af5d13d614224b8');
INSERT INTO "tags" VALUES('mlflow.runName','powerful-deer-767','420c4dbb86a548d4b19aa4e6a0778c43');
INSERT INTO "tags" VALUES('mlflow.runName','efficient-bear-406','cd70c94d81ec461480d802c604357de5');
